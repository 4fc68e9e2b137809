"""When the loop asks the store again, and when a drain is over: small decisions about time, without a clock."""

from __future__ import annotations

import math
from typing import Final

from reconciler.telemetry import emit
from reconciler.worker.events import Draining
from reconciler.worker.options import WorkerOptions

_STALL_SECONDS: Final = 1.0
_BENEFIT_SECONDS: Final = 2.0


class Pace:
    """How often something is asked: quickly while there is news, ever more slowly while there is none."""

    def __init__(self, shortest: float, longest: float) -> None:
        """Begin at once, with the shortest pause next."""
        self._shortest, self._longest = shortest, longest
        self._pause = shortest
        self.next_at = 0.0

    def is_due(self, now: float) -> bool:
        """Whether to ask now; if so, the next time is set, a pause later that grows until there is news."""
        if now < self.next_at:
            return False
        self.next_at = now + self._pause
        self._pause = min(2 * self._pause, self._longest)
        return True

    def hurry(self, now: float) -> None:
        """There is news, or room for it: ask at once and quickly again."""
        self._pause, self.next_at = self._shortest, now


class Silence:
    """When a guard that should have spoken by now counts as hung: at once, unless the loop itself has just stalled.

    A machine that freezes stops both; whichever wakes first must not end the other for its silence.
    """

    def __init__(self) -> None:
        """Nothing is overdue."""
        self._turned_at = 0.0
        self._hung_from: float | None = None

    def is_hung(self, now: float, *, is_overdue: bool) -> bool:
        """Give the verdict of this turn of the loop. One stall earns one benefit of the doubt, not each turn anew."""
        has_stalled = now > self._turned_at + _STALL_SECONDS
        self._turned_at = now
        if not is_overdue:
            self._hung_from = None
        elif self._hung_from is None:
            self._hung_from = now + _BENEFIT_SECONDS if has_stalled else now
        return self._hung_from is not None and now >= self._hung_from


class Drain:
    """How a worker ends: it waits for its jobs up to a timeout, then stops them and hands their runs back."""

    def __init__(self, options: WorkerOptions) -> None:
        """Not asked for yet."""
        self._options = options
        self._requests = 0
        self._until = math.inf

    def ask(self) -> None:
        """Ask for it; asking again makes it immediate. Safe in a signal handler."""
        self._requests += 1

    @property
    def is_asked(self) -> bool:
        """Whether the worker claims nothing more."""
        return self._requests > 0

    @property
    def is_hurried(self) -> bool:
        """Whether jobs are to be ended without their grace period."""
        return self._requests > 1

    def begin(self, now: float, jobs: int) -> None:
        """Start counting, once."""
        if self._until == math.inf:
            self._until = now + self._options.drain_timeout_seconds
            emit(Draining(self._options.name, jobs, self._options.drain_timeout_seconds))

    def must_stop(self, now: float) -> bool:
        """Whether jobs that still run are to be stopped."""
        return self.is_hurried or now >= self._until

    def is_over(self, jobs: int, is_written: bool, now: float) -> bool:  # noqa: FBT001 - a fact, not a switch
        """Whether the worker may end: nothing runs, and results are written or their lease is over anyway."""
        return self.is_asked and jobs == 0 and (is_written or now >= self._until + self._options.timings.lease_seconds)
