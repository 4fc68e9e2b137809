"""The leader's reconcile loop: a pass whenever the files differ, whenever someone asks, and from time to time anyway.

Truth is the content of the files, read again at every rescan; events only make it quicker. An unchanged directory
costs a read and a hash, and writes nothing (G1, G2). What a pass depends on besides the files (owners of names, recent
deletions) may change too, so one that left something open is tried again, and recorded only if it ends differently.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from reconciler.clock import Chance, Clock, SystemChance
from reconciler.model.lease import Term, Timings
from reconciler.model.policy import DEFAULT_MISFIRE, Misfire
from reconciler.reconcile.apply import Applier, Ended, Source
from reconciler.reconcile.revision import Fingerprint
from reconciler.reconcile.settle import PAUSE_SECONDS, Settling
from reconciler.store import passes
from reconciler.store.database import Database
from reconciler.telemetry import Event, emit

_POLL_SECONDS: Final = 0.25
_ASK_SECONDS: Final = 0.5
_Applied = frozenset[tuple[str, str, int]]


@dataclass(frozen=True, slots=True)
class PassMade(Event):
    """A pass over a source ended, whatever came of it."""

    level: ClassVar[int] = logging.DEBUG
    source: str
    state: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SourceRead(Event):
    """The files were read, and a pass made if they differ; `in_sync` when the store holds exactly what they declare."""

    level: ClassVar[int] = logging.DEBUG
    source: str
    in_sync: bool


@dataclass(frozen=True, slots=True)
class _Last:
    """The last pass, and what it saw: the files, and what the sources had applied before it (None: not known)."""

    term: int
    found: Fingerprint
    ended: Ended
    applied: _Applied | None
    at: float


class Reconciler:
    """Reconciles one source while this process leads. `step` is called by one thread."""

    def __init__(  # noqa: PLR0913 - the ports of a loop, each named at the call
        self,
        database: Database,
        source: Source,
        *,
        term: Callable[[], Term],
        timings: Timings,
        clock: Clock,
        exclusive: threading.Lock,
        chance: Chance | None = None,
        misfire: Misfire = DEFAULT_MISFIRE,
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        """Keep the parts; `term` raises NotLeaderError while this process does not lead.

        While `is_held` says so no pass is made: what it applies begins at an instant of a clock that is not steady.
        """
        self._database = database
        self._source = source
        self._term = term
        self._is_held = is_held
        self._clock = clock
        self._rescan_seconds = timings.rescan_seconds
        self._applier = Applier(
            database,
            source,
            timings=timings,
            chance=chance or SystemChance(),
            exclusive=exclusive,
            misfire=misfire,
        )
        self._settling = Settling(source.path, clock=clock, limits=source.limits)
        self._hinted = threading.Event()
        self._scan_at = self._ask_at = 0.0
        self._last: _Last | None = None
        self._whole: int | None = None
        """The term under which no pass of this source is known to be half done."""

    @property
    def source(self) -> str:
        """The name of what it reconciles."""
        return self._source.name

    def hint(self) -> None:
        """Say that files may have changed; may be called from any thread."""
        self._hinted.set()

    def step(self) -> float:
        """Make a pass if one is due; give the seconds until the next look. Raises NotLeaderError."""
        term = self._term()
        if self._is_held():
            return _POLL_SECONDS
        self._put_back(term)
        asked = self._asked()
        if asked is None and not self._is_due(term):
            return _POLL_SECONDS
        found = self._settling.look()
        if found is None:
            return PAUSE_SECONDS
        last, applied = self._last_over(term, found), self._database.read(passes.applied)
        if asked is not None or last is None or self._may_differ(last, applied):
            began_at = self._clock.elapsed()
            ended = self._run(term, found, asked, last)
            self._settling.unsettle()
            if ended is None:
                return PAUSE_SECONDS
            self._last = _Last(term.number, found, ended, applied if asked is None else None, began_at)
            if last is None or ended is not last.ended:
                emit(PassMade(self._source.name, ended.state, self._clock.elapsed() - began_at))
            last = self._last
        emit(SourceRead(self._source.name, last.ended.is_clean))
        self._scan_at = self._clock.elapsed() + self._rescan_seconds
        return _POLL_SECONDS

    def _run(self, term: Term, found: Fingerprint, asked: passes.Pass | None, last: _Last | None) -> Ended | None:
        self._whole = None
        ended = self._applier.run(
            term,
            settled=found,
            pass_id=None if asked is None else asked.id,
            expect_digest=None if asked is None else asked.expect_digest,
            last=None if asked is not None or last is None else last.ended,
        )
        self._whole = term.number
        return ended

    def _put_back(self, term: Term) -> None:
        """Take up what a fault of the store, or another leader, left half done."""
        if self._whole != term.number:
            self._database.tx(lambda tx: passes.put_back(tx, term, self._source.name))
            self._whole, self._ask_at = term.number, 0.0

    def _last_over(self, term: Term, found: Fingerprint) -> _Last | None:
        """Give the last pass if it was made under this term, over these files."""
        last = self._last
        return last if last is not None and (last.term, last.found) == (term.number, found) else None

    def _may_differ(self, last: _Last, applied: _Applied) -> bool:
        """Whether a pass that left something open may end differently now, over the same files."""
        if last.ended.is_clean:
            return False
        window_seconds = self._source.deletions.window_seconds
        return last.applied != applied or self._clock.elapsed() - last.at >= window_seconds

    def _asked(self) -> passes.Pass | None:
        """Give the pass that somebody asked for; while there is none, the store is not asked at every turn."""
        if self._clock.elapsed() < self._ask_at:
            return None
        asked = self._database.read(lambda tx: passes.requested(tx, self._source.name))
        self._ask_at = 0.0 if asked is not None else self._clock.elapsed() + _ASK_SECONDS
        return asked

    def _is_due(self, term: Term) -> bool:
        """Look at the files when a hint came, when it is time, and under every new term."""
        if self._hinted.is_set():
            self._hinted.clear()
            self._scan_at = 0.0
        return self._clock.elapsed() >= self._scan_at or self._last is None or self._last.term != term.number
