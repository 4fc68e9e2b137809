"""How a leader's duties are run: in a loop that survives a bad turn, each duty when it is due, under one term."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from reconciler.clock import Clock
from reconciler.engine.leader import Candidate
from reconciler.errors import NotLeaderError
from reconciler.model.lease import Term
from reconciler.telemetry import Event, emit

_AFTER_FAULT_SECONDS: Final = 1.0
_WITHOUT_TERM_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class DutyFailed(Event):
    """A duty failed in this turn; it is tried again in the next."""

    level: ClassVar[int] = logging.ERROR
    duty: str
    error: str


@dataclass(frozen=True, slots=True)
class DutyDone(Event):
    """A duty had its turn."""

    level: ClassVar[int] = logging.DEBUG
    duty: str
    seconds: float


@dataclass(slots=True)
class Duty:
    """A thing the leader does: `step` works under a term and says in how many seconds it wants to be called again."""

    name: str
    step: Callable[[Term], float]
    due_at: float = field(default=0.0)


class Duties:
    """Duties that share one thread and one lock: an apply holds `exclusive` while it changes what they work on."""

    def __init__(
        self,
        candidate: Candidate,
        duties: list[Duty],
        *,
        clock: Clock,
        exclusive: threading.Lock,
        openings: Sequence[Callable[[Term], object]] = (),
    ) -> None:
        """Keep the duties of one candidate; `openings` are done once under each term, before any of them."""
        self._candidate = candidate
        self._duties = duties
        self._clock = clock
        self._exclusive = exclusive
        self._openings = openings
        self._opened: int | None = None

    def step(self) -> float:
        """Run what is due; give the seconds until the next one is."""
        try:
            term = self._candidate.term()
        except NotLeaderError:
            return _WITHOUT_TERM_SECONDS
        if self._opened != term.number:
            opening = Duty("opening", self._open)
            self._run(opening, term)
            if self._opened != term.number:
                return max(0.0, opening.due_at - self._clock.elapsed())
        for duty in self._duties:
            if duty.due_at <= self._clock.elapsed():
                self._run(duty, term)
        return max(0.0, min(duty.due_at for duty in self._duties) - self._clock.elapsed())

    def _open(self, term: Term) -> float:
        for each in self._openings:
            each(term)
        self._opened = term.number
        return 0.0

    def _run(self, duty: Duty, term: Term) -> None:
        pause = _AFTER_FAULT_SECONDS
        try:
            with self._exclusive:
                began_at = self._clock.elapsed()
                pause = duty.step(term)
            emit(DutyDone(duty.name, self._clock.elapsed() - began_at))
        except NotLeaderError as lost:
            self._candidate.lost(str(lost))
            pause = 0.0
        except Exception as fault:  # noqa: BLE001 - one bad duty must not stop the others (X2); it is told and tried again
            emit(DutyFailed(duty.name, f"{type(fault).__name__}: {fault}"))
        duty.due_at = self._clock.elapsed() + pause
