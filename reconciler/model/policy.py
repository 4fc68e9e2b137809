"""The rules that decide what becomes of a run or slot, as pure functions of facts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.clock import SECOND_US
from reconciler.model.run import AttemptOutcome, RunState

_DRAWS: Final = 1 << 32


class OnDelete(StrEnum):
    """What happens to the runs of a definition that is pruned."""

    DRAIN = "Drain"
    CANCEL = "Cancel"


class MisfirePolicy(StrEnum):
    """What happens to slots that were noticed too late."""

    FIRE_NOW = "FireNow"
    SKIP_TO_NEXT = "SkipToNext"
    RUN_ALL_MISSED = "RunAllMissed"


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


DEFAULT_MISFIRE: Final = Misfire()


class CalendarAction(StrEnum):
    """What becomes of a slot while a calendar is closed: it is skipped, or runs when the calendar opens."""

    SKIP = "Skip"
    DEFER = "Defer"


class Gap(StrEnum):
    """When a local time fires that the clocks skip: at the first instant after, later by the gap's length, or never."""

    RUN_AFTER = "RunAfter"
    SHIFT = "Shift"
    SKIP = "Skip"


class Overlap(StrEnum):
    """Which of the two instants fires when the clocks show a local time twice."""

    FIRST = "First"
    SECOND = "Second"
    BOTH = "Both"


class DayRule(StrEnum):
    """How day-of-month and day-of-week of a cron expression go together.

    `Or` is Vixie's rule: either decides, unless one of them begins with a star, then both must match.
    """

    OR = "Or"
    AND = "And"


class Backoff(StrEnum):
    """How the pause before the next attempt grows."""

    FIXED = "Fixed"
    LINEAR = "Linear"
    EXPONENTIAL = "Exponential"
    EXPONENTIAL_JITTER = "ExponentialJitter"


@dataclass(frozen=True, slots=True)
class Retry:
    """When a failed run is tried again (format.md, retry). `on_codes` None means: whatever the exit code."""

    max_attempts: int = 1
    backoff: Backoff = Backoff.EXPONENTIAL_JITTER
    initial_us: int = 10 * SECOND_US
    max_us: int = 600 * SECOND_US
    factor: int = 2
    on_codes: frozenset[int] | None = None
    never_on_codes: frozenset[int] = frozenset()

    def admits(self, exit_code: int | None) -> bool:
        """Whether a failure of this kind may be tried again; one without an exit code (a timeout, a signal) may."""
        if exit_code is None:
            return True
        return exit_code not in self.never_on_codes and (self.on_codes is None or exit_code in self.on_codes)

    def delay_us(self, failures: int, *, seed: str) -> int:
        """Give the pause after the `failures`-th failure, never more than `max_us`.

        The cap is applied while the delay grows, so no number of attempts overflows it. Jitter takes between half of
        the delay and all of it, drawn from `seed`: repeating a step gives the same pause.
        """
        match self.backoff:
            case Backoff.FIXED:
                delay = self.initial_us
            case Backoff.LINEAR:
                delay = self.initial_us * failures
            case Backoff.EXPONENTIAL | Backoff.EXPONENTIAL_JITTER:
                delay = self._grown(failures)
        delay = min(delay, self.max_us)
        return delay if self.backoff is not Backoff.EXPONENTIAL_JITTER else delay - delay * _draw(seed) // (2 * _DRAWS)

    def _grown(self, failures: int) -> int:
        delay = self.initial_us
        for _ in range(failures - 1 if self.factor > 1 else 0):
            if delay >= self.max_us:
                break
            delay *= self.factor
        return delay


@dataclass(frozen=True, slots=True)
class Ended:
    """What a policy needs to know of an attempt that ended.

    `failures` counts executions that failed or timed out, `lost_leases` those whose lease was lost, this one included.
    """

    result: AttemptOutcome
    failures: int
    lost_leases: int
    exit_code: int | None = None
    is_permanent: bool = False
    """The same would happen again: the worker refuses the program, the payload makes no sense."""
    cancel_requested: bool = False


def after_attempt(ended: Ended, retry: Retry, *, max_lost_leases: int) -> RunState:
    """Decide where a run goes when an attempt ended.

    A run that was handed back by a draining node loses nothing of its budget. With one attempt, or after an error that
    is never tried again, a run ends Failed or TimedOut; with several used up, or too many leases lost, DeadLettered.
    One that was to be cancelled meanwhile is Cancelled however the attempt ended, unless it succeeded first (R9).
    Law R3: executions that count <= max_attempts + max_lost_leases.
    """
    if ended.cancel_requested and ended.result is not AttemptOutcome.SUCCEEDED:
        return RunState.CANCELLED
    match ended.result:
        case AttemptOutcome.SUCCEEDED:
            return RunState.SUCCEEDED
        case AttemptOutcome.CANCELLED:
            return RunState.CANCELLED
        case AttemptOutcome.HANDED_BACK:
            return RunState.PENDING
        case AttemptOutcome.LOST_LEASE:
            return RunState.PENDING if ended.lost_leases < max_lost_leases else RunState.DEAD_LETTERED
        case AttemptOutcome.FAILED | AttemptOutcome.TIMED_OUT:
            return _after_failure(ended, retry)


def _after_failure(ended: Ended, retry: Retry) -> RunState:
    final = RunState.FAILED if ended.result is AttemptOutcome.FAILED else RunState.TIMED_OUT
    if retry.max_attempts == 1 or ended.is_permanent or not retry.admits(ended.exit_code):
        return final
    return RunState.RETRYING if ended.failures < retry.max_attempts else RunState.DEAD_LETTERED


def _draw(seed: str) -> int:
    """Draw a number below `_DRAWS` from a seed."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4])
