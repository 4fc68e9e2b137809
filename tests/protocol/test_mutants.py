"""The simulation kills what it should: each mutant within 2,000 seeds, all of which the product survives."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.protocol.mutants import MUTANTS
from tests.protocol.simulation.play import Player, Verdict

MOST_SEEDS: Final = 2000
LAWS: Final = {
    "no-fence-on-finish": "I3",
    "reap-ignores-expiry": "I1",
    "caps-are-not-looked-at": "C1",
    "cursor-moved-in-another-transaction": "S2",
}
"""The law that each one breaks."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_dies_where_the_product_lives(player: Player, played: Callable[[int], Verdict], mutant: str) -> None:
    with MUTANTS[mutant]():
        killed_at, verdict = killed(player)

    assert LAWS[mutant] in {violation.partition(":")[0] for violation in verdict.violations}
    assert all(played(seed).holds for seed in range(killed_at + 1))


def killed(player: Player) -> tuple[int, Verdict]:
    """Find the first seed that sees a mutant."""
    for seed in range(MOST_SEEDS):
        verdict = player.play(seed)
        if not verdict.holds:
            return seed, verdict
    pytest.fail(f"it survived {MOST_SEEDS} seeds", pytrace=False)
