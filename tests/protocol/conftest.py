"""One stage for all simulated tests, and what it gave: a seed that was played need not be played again."""

import functools
from collections.abc import Callable, Iterator

import pytest

from tests.protocol.simulation.play import Player, Verdict


@pytest.fixture(scope="session")
def player() -> Iterator[Player]:
    made = Player()
    yield made
    made.close()


@pytest.fixture(scope="session")
def played(player: Player) -> Callable[[int], Verdict]:
    """The product as it is, under a seed."""
    return functools.cache(player.play)
