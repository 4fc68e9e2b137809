"""The only place that puts the parts together: which settings, store and clock, which loops on which threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from reconciler.cli.settings import Settings
from reconciler.cli.stores import process_name
from reconciler.clock import SECOND_US, Clock, SystemClock
from reconciler.config import SourceSettings
from reconciler.engine.clockwatch import ClockWatch
from reconciler.engine.leader import Candidate
from reconciler.engine.loop import Duties, Duty
from reconciler.engine.materialise import Materialise
from reconciler.engine.reap import Reap
from reconciler.engine.unpause import Unpause
from reconciler.engine.zonedata import ZoneData
from reconciler.errors import NotLeaderError
from reconciler.model.lease import Timings
from reconciler.model.policy import DEFAULT_MISFIRE, Misfire, MisfirePolicy
from reconciler.reconcile.apply import Source
from reconciler.reconcile.loop import Reconciler
from reconciler.reconcile.watch import Watcher
from reconciler.store import leader, places
from reconciler.store.database import Database
from reconciler.store.slots import Bounds
from reconciler.telemetry import Event, emit

_AFTER_FAULT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class LoopFailed(Event):
    """A loop had a bad turn; it goes on."""

    level: ClassVar[int] = logging.ERROR
    loop: str
    error: str


@dataclass(frozen=True, slots=True)
class CandidateStarted(Event):
    """A process stands for the lead over these sources; `leader` is who leads now, if anybody."""

    owner: str
    store: str
    sources: Sequence[str]
    leader: str | None


class LeaderProcess:
    """A leader candidate with its duties and its reconcile loop, each on a thread of its own."""

    def __init__(
        self,
        database: Database,
        sources: Sequence[Source],
        *,
        timings: Timings,
        misfire: Misfire = DEFAULT_MISFIRE,
        max_running: int | None = None,
    ) -> None:
        """Put the parts together; nothing runs yet. `max_running` None means as many as the nodes have slots."""
        clock = SystemClock()
        exclusive = threading.Lock()
        self._clock = clock
        self._stop = threading.Event()
        self._database = database
        self._sources = sources
        self._owner = process_name()
        self._candidate = Candidate(database, owner=self._owner, timings=timings, clock=clock)
        bounds, watch = Bounds.of(timings, misfire), ClockWatch(clock)
        duties = [
            Duty("materialise", Materialise(database, bounds, watch=watch).step),
            Duty("reap", Reap(database).step),
            Duty("unpause", Unpause(database, bounds).step),
        ]
        openings = (
            watch.begin,
            ZoneData(database).follow,
            lambda term: database.tx(lambda tx: places.set_cap(tx, term, max_running)),
        )
        self._duties = Duties(self._candidate, duties, clock=clock, exclusive=exclusive, openings=openings)
        self._reconcilers = [
            Reconciler(
                database,
                source,
                term=self._candidate.term,
                timings=timings,
                clock=clock,
                exclusive=exclusive,
                misfire=misfire,
                is_held=lambda: watch.is_held,
            )
            for source in sources
        ]
        self._watchers = [
            Watcher(source.path, each.hint, clock=clock)
            for source, each in zip(sources, self._reconcilers, strict=True)
        ]
        self._threads: list[threading.Thread] = []

    def introduced(self) -> CandidateStarted:
        """Say what it is about to do, and whom it finds leading. Raises StoreUnavailableError."""
        leading = self._database.read(leader.current)
        return CandidateStarted(
            self._owner,
            self._database.shown,
            [f"{each.name}={each.path}" for each in self._sources],
            leading.owner if leading.alive else None,
        )

    def start(self) -> None:
        """Start the three loops."""
        steps = {"lead": self._candidate.step, "duties": self._duties.step, "reconcile": self._reconcile}
        for name, step in steps.items():
            thread = threading.Thread(target=run_loop, args=(name, step, self._stop, self._clock), name=name)
            thread.start()
            self._threads.append(thread)
        for watcher in self._watchers:
            watcher.start()

    def wait(self, seconds: float) -> bool:
        """Wait until told to stop, at most so long; True when told."""
        return self._stop.wait(seconds)

    def stop(self) -> None:
        """Stop the loops and hand the lead over at once."""
        self._stop.set()
        for watcher in self._watchers:
            watcher.stop()
        for thread in self._threads:
            thread.join()
        self._candidate.resign()

    def request_stop(self) -> None:
        """Ask for the end; safe in a signal handler."""
        self._stop.set()

    def _reconcile(self) -> float:
        """Reconcile the sources in turn, never two at once: a pass sweeps away what another one left staged.

        A source that fails does not hold up the others. Raises NotLeaderError.
        """
        return min(guarded(f"reconcile {each.source}", each.step) for each in self._reconcilers)


def run_loop(name: str, step: Callable[[], float], stop: threading.Event, clock: Clock) -> None:
    """Call `step` until `stop`, pausing as it asks; a bad turn is told and does not end the loop."""
    while not stop.is_set():
        try:
            pause = guarded(name, step)
        except NotLeaderError:
            pause = 0.2
        clock.wait(stop, pause)


def guarded(name: str, step: Callable[[], float]) -> float:
    """Call `step`; a bad turn is told, and gives a pause. Raises NotLeaderError."""
    try:
        return step()
    except NotLeaderError:
        raise
    except Exception as fault:  # noqa: BLE001 - the loop survives a bad turn, and says so
        emit(LoopFailed(name, f"{type(fault).__name__}: {fault}"))
        return _AFTER_FAULT_SECONDS


def source_of(settings: Settings, chosen: SourceSettings, *, moved: bool = False) -> Source:
    """Give a source, read as the settings say."""
    return Source(
        chosen.name,
        Path(chosen.path),
        moved=moved,
        limits=settings.limits,
        time_zone=settings.time_zone,
        deletions=settings.deletions,
    )


def misfire_of(settings: Settings) -> Misfire:
    """Give what becomes of missed slots."""
    each = settings.config.misfire
    return Misfire(MisfirePolicy(each.policy), round(each.window_seconds * SECOND_US), each.cap)
