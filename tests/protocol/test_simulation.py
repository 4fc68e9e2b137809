"""The protocol under a seeded scheduler (invariants I1-I5, L1, L2, S1-S4, R1-R7, C1); docs/simulation.md."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.protocol.mutants import MUTANTS
from tests.protocol.simulation.play import Player, Verdict
from tests.protocol.simulation.shrink import shrunk, smallest, told

IN_CI = 350
IN_PROOF = 5000
REASONS = {"Paused", "Suspended", "MisfireSkipped", "BlackoutSkipped", "Deferred", "DeadlineExpired"}
MANY_STEPS = 30
"""So many deviations that most of them cannot matter."""


@pytest.fixture
def forgetful() -> Iterator[Player]:
    """Workers that never ask what they hold."""
    made = Player(reads_back=False)
    yield made
    made.close()


def held(player: Player, played: Callable[[int], Verdict], seeds: Sequence[int]) -> list[Verdict]:
    """Play seeds; fail with the smallest form of the first that breaks anything."""
    verdicts = []
    for seed in seeds:
        verdict = played(seed)
        if not verdict.holds:
            pytest.fail(f"{told(verdict)}\n\nsmallest:\n{told(smallest(player, verdict))}", pytrace=False)
        verdicts.append(verdict)
    return verdicts


def proves_activity(verdicts: Sequence[Verdict]) -> bool:
    """Tell whether faults took hold: a run of the simulation in which nothing happened proves nothing."""
    struck = Counter(fault.partition(" ")[0] for verdict in verdicts for fault in verdict.faults)
    return (
        len(struck) == 7
        and struck.total() > len(verdicts)
        and sum(verdict.refused for verdict in verdicts) > len(verdicts) / 50
        and sum(verdict.terms for verdict in verdicts) > len(verdicts) * 1.2
        and sum(verdict.runs for verdict in verdicts) > len(verdicts) * 4
        and {reason for verdict in verdicts for reason in verdict.reasons} >= REASONS
    )


@pytest.mark.timeout(300)
def test_no_seed_breaks_the_protocol(player: Player, played: Callable[[int], Verdict]) -> None:
    verdicts = held(player, played, range(IN_CI))

    assert proves_activity(verdicts)


@pytest.mark.proof
@pytest.mark.timeout(3600)
@pytest.mark.skipif("RECONCILER_PROOF" not in os.environ, reason="long: make proof")
def test_none_of_five_thousand_seeds_breaks_the_protocol(player: Player, played: Callable[[int], Verdict]) -> None:
    verdicts = held(player, played, range(IN_PROOF))

    assert proves_activity(verdicts)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_always_plays_the_same(player: Player, seed: int) -> None:
    first = player.play(seed, is_traced=True)
    player.play(seed + 1)
    second = player.play(seed, steps=first.steps, is_traced=True)

    assert first.trace == second.trace
    assert first.faults == second.faults


def test_a_failure_is_made_small(player: Player) -> None:
    """The clean order finds nothing here; some of the deviations do."""
    with MUTANTS["cursor-moved-in-another-transaction"]():
        verdicts = (player.play(seed) for seed in range(2000))
        found = next(verdict for verdict in verdicts if not verdict.holds and len(verdict.steps) > MANY_STEPS)
        small = smallest(player, found)

    assert not small.holds
    assert len(small.steps) < len(found.steps) / 2
    assert f"make sim SEED={found.scenario.seed} STEPS=" in told(small)


def test_shrinking_leaves_what_is_needed() -> None:
    assert shrunk(range(100), lambda steps: {17, 63} <= set(steps)) == [17, 63]


@pytest.mark.timeout(300)
def test_a_claim_whose_answer_is_lost_stays_forever_with_a_worker_that_does_not_look(forgetful: Player) -> None:
    """R2: why a worker reads back what it holds."""
    found = next(verdict for seed in range(2000) if not (verdict := forgetful.play(seed)).holds)

    assert {violation.partition(":")[0] for violation in found.violations} == {"R2"}
    assert any(fault.startswith("lost-ack of worker") for fault in found.faults)
