"""What becomes of slots that were noticed late: each one runs, or is recorded with the reason why not (law S2).

A slot noticed within the on-time tolerance runs. An older one was missed, and its trigger's policy decides: `FireNow`
runs the newest missed slot, `RunAllMissed` the newest `cap` of them, `SkipToNext` none; the window bounds all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.clock import SECOND_US
from reconciler.model.policy import MisfirePolicy
from reconciler.model.run import SkipReason


@dataclass(frozen=True, slots=True)
class Misfire:
    """What becomes of missed slots: which of those inside the window run, and at most how many."""

    policy: MisfirePolicy = MisfirePolicy.FIRE_NOW
    window_us: int = 24 * 3600 * SECOND_US
    cap: int = 100

    @property
    def looks_past(self) -> int:
        """How many newer missed slots decide over one: under `RunAllMissed` as many as may run."""
        return self.cap if self.policy is MisfirePolicy.RUN_ALL_MISSED else 1


DEFAULT: Final = Misfire()


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one slot; `reason` is set exactly when it does not run."""

    slot_us: int
    run: bool
    reason: SkipReason | None


def settle(
    slots: Sequence[int], *, now_us: int, on_time_us: int, misfire: Misfire = DEFAULT, more_follow: int = 0
) -> list[Decision]:
    """Decide over `slots`, oldest first.

    `more_follow` counts the *missed* slots that follow these but are not in the list (counting up to `looks_past` is
    enough): none of the missed slots given here is then the newest.
    """
    missed = sum(now_us - slot > on_time_us for slot in slots)
    decisions: list[Decision] = []
    for index, slot in enumerate(slots):
        reason = None
        if index < missed:
            newer = missed - 1 - index + more_follow
            reason = _reason(misfire, newer=newer, fresh=now_us - slot <= misfire.window_us)
        decisions.append(Decision(slot, reason is None, reason))
    return decisions


def _reason(misfire: Misfire, *, newer: int, fresh: bool) -> SkipReason | None:
    """Say why a missed slot with `newer` missed ones after it does not run; None when it does."""
    match misfire.policy:
        case MisfirePolicy.SKIP_TO_NEXT:
            return SkipReason.MISFIRE_SKIPPED
        case MisfirePolicy.FIRE_NOW | MisfirePolicy.RUN_ALL_MISSED if not fresh:
            return SkipReason.WINDOW_PASSED
        case MisfirePolicy.FIRE_NOW:
            return SkipReason.MISFIRE_SKIPPED if newer else None
        case MisfirePolicy.RUN_ALL_MISSED:
            return SkipReason.CATCH_UP_CAP if newer >= misfire.cap else None
