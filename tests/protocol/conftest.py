"""One stage for all simulated tests: setting it up costs more than some seeds."""

from collections.abc import Iterator

import pytest

from tests.protocol.simulation.play import Player


@pytest.fixture(scope="session")
def player() -> Iterator[Player]:
    made = Player()
    yield made
    made.close()
