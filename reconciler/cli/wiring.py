"""The only place that puts the parts together: which store, which clock, which loops on which threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from reconciler.cli.stores import process_name
from reconciler.clock import Clock, SystemClock
from reconciler.engine.leader import Candidate
from reconciler.engine.loop import Duties, Duty
from reconciler.engine.materialise import Materialise
from reconciler.engine.reap import Reap
from reconciler.errors import NotLeaderError
from reconciler.model.lease import Timings
from reconciler.reconcile.apply import Source
from reconciler.reconcile.loop import Reconciler
from reconciler.reconcile.watch import Watcher
from reconciler.store.database import Database
from reconciler.telemetry import Event, emit

_AFTER_FAULT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class LoopFailed(Event):
    """A loop had a bad turn; it goes on."""

    level: ClassVar[int] = logging.ERROR
    loop: str
    error: str


class LeaderProcess:
    """A leader candidate with its duties and its reconcile loop, each on a thread of its own."""

    def __init__(self, database: Database, source: Source, *, timings: Timings) -> None:
        """Put the parts together; nothing runs yet."""
        clock = SystemClock()
        exclusive = threading.Lock()
        self._clock = clock
        self._stop = threading.Event()
        self._candidate = Candidate(database, owner=process_name(), timings=timings, clock=clock)
        duties = [Duty("materialise", Materialise(database, timings).step), Duty("reap", Reap(database).step)]
        self._duties = Duties(self._candidate, duties, clock=clock, exclusive=exclusive)
        self.reconciler = Reconciler(
            database,
            source,
            term=self._candidate.term,
            timings=timings,
            clock=clock,
            exclusive=exclusive,
        )
        self._watcher = Watcher(source.path, self.reconciler.hint, clock=clock)
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the three loops."""
        steps = {"lead": self._candidate.step, "duties": self._duties.step, "reconcile": self.reconciler.step}
        for name, step in steps.items():
            thread = threading.Thread(target=run_loop, args=(name, step, self._stop, self._clock), name=name)
            thread.start()
            self._threads.append(thread)
        self._watcher.start()

    def wait(self, seconds: float) -> bool:
        """Wait until told to stop, at most so long; True when told."""
        return self._stop.wait(seconds)

    def stop(self) -> None:
        """Stop the loops and hand the lead over at once."""
        self._stop.set()
        self._watcher.stop()
        for thread in self._threads:
            thread.join()
        self._candidate.resign()

    def request_stop(self) -> None:
        """Ask for the end; safe in a signal handler."""
        self._stop.set()


def run_loop(name: str, step: Callable[[], float], stop: threading.Event, clock: Clock) -> None:
    """Call `step` until `stop`, pausing as it asks; a bad turn is told and does not end the loop."""
    while not stop.is_set():
        try:
            pause = step()
        except NotLeaderError:
            pause = 0.2
        except Exception as fault:  # noqa: BLE001 - the loop survives a bad turn, and says so
            emit(LoopFailed(name, f"{type(fault).__name__}: {fault}"))
            pause = _AFTER_FAULT_SECONDS
        clock.wait(stop, pause)
