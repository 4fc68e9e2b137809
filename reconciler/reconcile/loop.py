"""The leader's reconcile loop: a pass whenever the files differ, whenever someone asks, and from time to time anyway.

Truth is the content of the files, read again at every rescan; events only make it quicker. An unchanged directory
costs a read and a hash, and writes nothing (G1, G2).
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
from reconciler.reconcile.apply import Applier, Source
from reconciler.reconcile.revision import Fingerprint
from reconciler.reconcile.settle import PAUSE_SECONDS, Settling
from reconciler.store import passes
from reconciler.store.database import Database
from reconciler.store.passes import PassState
from reconciler.telemetry import Event, emit

_POLL_SECONDS: Final = 0.25
_ASK_SECONDS: Final = 0.5
_IN_SYNC: Final = frozenset({PassState.APPLIED, PassState.UNCHANGED})


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
        self._done: tuple[int, Fingerprint] | None = None
        """Term and fingerprint of the last pass; what differs from it is applied."""
        self._in_sync = False

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
        asked = self._asked()
        if asked is None and not self._is_due(term):
            return _POLL_SECONDS
        found = self._settling.look()
        if found is None:
            return PAUSE_SECONDS
        if asked is not None or (term.number, found) != self._done:
            began_at = self._clock.elapsed()
            ended = self._applier.run(
                term,
                settled=found,
                pass_id=None if asked is None else asked.id,
                expect_digest=None if asked is None else asked.expect_digest,
            )
            self._settling.unsettle()
            if ended is None:
                return PAUSE_SECONDS
            self._done = (term.number, found)
            self._in_sync = ended.state in _IN_SYNC
            emit(PassMade(self._source.name, ended.state, self._clock.elapsed() - began_at))
        emit(SourceRead(self._source.name, self._in_sync))
        self._scan_at = self._clock.elapsed() + self._rescan_seconds
        return _POLL_SECONDS

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
        return self._clock.elapsed() >= self._scan_at or self._done is None or self._done[0] != term.number
