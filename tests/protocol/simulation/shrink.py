"""Making a failure small, and telling it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.protocol.simulation.play import Player, Verdict

_MOST_PLAYS: Final = 200
_MOST_TOLD: Final = 8


def shrunk(steps: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> Sequence[int]:
    """Leave out halves, quarters, ... of the steps that deviate from the plain order, as long as it still fails."""
    kept, size, plays = list(steps), (len(steps) + 1) // 2, 0
    while size and plays < _MOST_PLAYS:
        at = 0
        while at < len(kept) and plays < _MOST_PLAYS:
            without = kept[:at] + kept[at + size :]
            plays += 1
            if fails(without):
                kept = without
            else:
                at += size
        size = size // 2 if size > 1 else 0
    return kept


def smallest(player: Player, verdict: Verdict) -> Verdict:
    """Play a failing seed with as few deviations as still break one of the same laws."""
    seed, laws = verdict.scenario.seed, _laws(verdict)

    def fails(steps: Sequence[int]) -> bool:
        return bool(laws & _laws(player.play(seed, steps=steps)))

    return player.play(seed, steps=shrunk(verdict.steps, fails))


def told(verdict: Verdict, *, mutant: str | None = None) -> str:
    """Tell how a seed went, with the command that plays it again."""
    again = f"make sim SEED={verdict.scenario.seed}"
    again += f" STEPS={','.join(map(str, verdict.steps))}" if verdict.steps else " STEPS=0"
    again += f" MUTANT={mutant}" if mutant else ""
    violations = [f"  {each}" for each in verdict.violations[:_MOST_TOLD]]
    if len(verdict.violations) > _MOST_TOLD:
        violations.append(f"  and {len(verdict.violations) - _MOST_TOLD} more")
    return "\n".join(
        [
            str(verdict.scenario),
            f"{verdict.length} steps, {len(verdict.steps)} of them off the plain order; {verdict.runs} runs ended",
            f"{verdict.terms} terms, {verdict.refused} reports refused",
            *(f"  fault: {each}" for each in verdict.faults),
            *(violations or ["  every invariant held"]),
            f"again: {again}",
        ]
    )


def _laws(verdict: Verdict) -> set[str]:
    return {each.partition(":")[0] for each in verdict.violations}
