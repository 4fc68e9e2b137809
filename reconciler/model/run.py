"""The life of a run: its states, the legal moves between them, and what an attempt can end with.

Law R1: only the moves of `TRANSITIONS` ever happen, and a terminal state is final. The store takes its WHERE clauses
from `sources_of` and its CHECK constraints from the sets below, so code and database say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.model.log import LogLine


class RunState(StrEnum):
    """Where a run stands."""

    SCHEDULED = "Scheduled"
    """Materialised ahead, not yet due."""
    BLOCKED = "Blocked"
    """Waits for a limit, an exclusion or predecessors; `reason` says which."""
    PENDING = "Pending"
    """Claimable."""
    CLAIMED = "Claimed"
    """A node holds it but has not started it (prefetched)."""
    RUNNING = "Running"
    """A node runs it; the attempt is counted."""
    RETRYING = "Retrying"
    """Failed or timed out, waits for its backoff."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    CANCELLED = "Cancelled"
    SKIPPED = "Skipped"
    UPSTREAM_FAILED = "UpstreamFailed"
    DEAD_LETTERED = "DeadLettered"


WAITING: Final = frozenset({RunState.SCHEDULED, RunState.BLOCKED, RunState.PENDING, RunState.RETRYING})
"""States in which a run waits to be held."""
_ENDED_WITHOUT_START: Final = frozenset({RunState.CANCELLED, RunState.SKIPPED, RunState.UPSTREAM_FAILED})

HELD: Final = frozenset({RunState.CLAIMED, RunState.RUNNING})
"""States in which a node session holds the run."""

TERMINAL: Final = frozenset(
    {RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT, RunState.DEAD_LETTERED} | _ENDED_WITHOUT_START
)
"""States that end a run: it leaves the live table for history and never moves again."""

LIVE: Final = WAITING | HELD
"""States of a run that may still move."""

TRANSITIONS: Final[Mapping[RunState, frozenset[RunState]]] = {
    RunState.SCHEDULED: frozenset({RunState.PENDING, RunState.BLOCKED}) | _ENDED_WITHOUT_START,
    RunState.BLOCKED: frozenset({RunState.PENDING}) | _ENDED_WITHOUT_START,
    RunState.PENDING: frozenset({RunState.CLAIMED, RunState.RUNNING, RunState.BLOCKED}) | _ENDED_WITHOUT_START,
    RunState.CLAIMED: frozenset({RunState.RUNNING, RunState.PENDING, RunState.CANCELLED, RunState.DEAD_LETTERED}),
    RunState.RUNNING: frozenset(
        {
            RunState.SUCCEEDED,
            RunState.FAILED,
            RunState.TIMED_OUT,
            RunState.CANCELLED,
            RunState.RETRYING,
            RunState.PENDING,
            RunState.DEAD_LETTERED,
        }
    ),
    RunState.RETRYING: frozenset({RunState.PENDING, RunState.BLOCKED, RunState.DEAD_LETTERED}) | _ENDED_WITHOUT_START,
    **{state: frozenset() for state in TERMINAL},
}


def sources_of(target: RunState) -> list[RunState]:
    """Give the states a run may leave for `target`; the store puts them in its WHERE."""
    return sorted(state for state, targets in TRANSITIONS.items() if target in targets)


CANCEL_WANTED: Final = "someone asked to cancel the run"
"""What went wrong with a run that was held when it was cancelled."""


class AttemptOutcome(StrEnum):
    """How one hold on a run ended. Lost leases and handed-back runs are not failures and have their own budget."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    CANCELLED = "Cancelled"
    LOST_LEASE = "LostLease"
    HANDED_BACK = "HandedBack"


class SkipReason(StrEnum):
    """Why a slot did not become a run: the closed list of the slot ledger."""

    MISFIRE_SKIPPED = "MisfireSkipped"
    CATCH_UP_CAP = "CatchUpCap"
    WINDOW_PASSED = "WindowPassed"
    BLACKOUT_SKIPPED = "BlackoutSkipped"
    DEFERRED = "Deferred"
    GAP_SKIPPED = "GapSkipped"
    PAUSED = "Paused"
    SUSPENDED = "Suspended"
    DEADLINE_EXPIRED = "DeadlineExpired"
    CLOCK_STEP = "ClockStep"
    DEFINITION_REMOVED = "DefinitionRemoved"


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's hold on a run, as the store granted it. `fence` is what every later write must present."""

    run_id: int
    fence: int
    attempt: int
    definition_id: int
    generation: int
    trigger_id: int | None
    slot_us: int
    handler: str
    parameters: str | None
    """The run's own parameters as JSON text, when it has any."""
    waited_us: int = 0
    """How long it had been due when it was claimed, by the store's clock."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a worker reports of an attempt it finished; `output` is bounded text, already cleaned.

    `log` holds the last lines of it, those that are not yet stored.
    `started_us` and `finished_us` are of the node's own clock: the store uses only their difference.
    """

    run_id: int
    fence: int
    attempt: int
    result: AttemptOutcome
    started_us: int
    finished_us: int
    exit_code: int | None = None
    error: str | None = None
    output: str = ""
    is_permanent: bool = False
    """A failure that another attempt would only repeat."""
    log: Sequence[LogLine] = ()
    definition: str = ""
    """Whose run it is, for those who count; the store knows by the run's id."""
