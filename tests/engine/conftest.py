"""The store's cast serves here too, and what the duties tell is heard."""

from collections.abc import Iterator

import pytest

from reconciler.telemetry import Event, subscribe
from tests.store.conftest import *  # noqa: F403 - fixtures are found by name


@pytest.fixture
def events() -> Iterator[list[Event]]:
    """Everything that is emitted during a test."""
    heard: list[Event] = []
    end = subscribe(heard.append)
    yield heard
    end()
