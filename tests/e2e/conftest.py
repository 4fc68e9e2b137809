"""Real installations, closed after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.postgres import URL_VARIABLE, PostgresServer


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    """A server of the test's own, to be stopped and started."""
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    with PostgresServer.find() as server:
        yield server


@pytest.fixture
def cluster(store_url: str, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(store_url, tmp_path)
    yield made
    made.close()
