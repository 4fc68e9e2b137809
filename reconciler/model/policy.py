"""The rules that decide what becomes of a run or slot, as pure functions of facts."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from reconciler.model.run import AttemptOutcome, RunState

MAX_LOST_LEASES: Final = 3
"""How often a run may lose its lease before it is parked (format.md: poison.maxLostLeases)."""
MAX_ATTEMPTS: Final = 1
"""How many executions may fail or time out (format.md: retry.maxAttempts)."""


class OnDelete(StrEnum):
    """What happens to the runs of a definition that is pruned."""

    DRAIN = "Drain"
    CANCEL = "Cancel"


class MisfirePolicy(StrEnum):
    """What happens to slots that were noticed too late."""

    FIRE_NOW = "FireNow"
    SKIP_TO_NEXT = "SkipToNext"
    RUN_ALL_MISSED = "RunAllMissed"


def after_attempt(result: AttemptOutcome, *, lost_leases: int) -> RunState:
    """Decide where a run goes when an attempt ended.

    `lost_leases` counts the executions that ended in a lost lease, this one included. A run that was handed back by a
    draining node loses nothing of its budget. Law R3: executions that count <= MAX_ATTEMPTS + MAX_LOST_LEASES.
    """
    match result:
        case AttemptOutcome.SUCCEEDED:
            return RunState.SUCCEEDED
        case AttemptOutcome.CANCELLED:
            return RunState.CANCELLED
        case AttemptOutcome.HANDED_BACK:
            return RunState.PENDING
        case AttemptOutcome.LOST_LEASE:
            return RunState.PENDING if lost_leases < MAX_LOST_LEASES else RunState.DEAD_LETTERED
        case AttemptOutcome.FAILED:
            return RunState.FAILED
        case AttemptOutcome.TIMED_OUT:
            return RunState.TIMED_OUT
