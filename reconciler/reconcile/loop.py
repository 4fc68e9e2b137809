"""The leader's reconcile loop: a pass whenever the files differ, whenever someone asks, and from time to time anyway.

Truth is the content of the files, read again at every rescan; events only make it quicker. An unchanged directory
costs a read and a hash, and writes nothing (G1, G2).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from reconciler.clock import Chance, Clock, SystemChance
from reconciler.model.lease import Term, Timings
from reconciler.reconcile.apply import Applier, Source
from reconciler.reconcile.revision import fingerprint
from reconciler.spec.files import SourceUnavailableError
from reconciler.store import passes
from reconciler.store.database import Database
from reconciler.store.passes import OVER, PassState

_POLL_SECONDS: Final = 0.25
_UNREADABLE: Final = "unreadable"


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
    ) -> None:
        """Keep the parts; `term` raises NotLeaderError while this process does not lead."""
        self._database = database
        self._source = source
        self._term = term
        self._clock = clock
        self._rescan_seconds = timings.rescan_seconds
        self._applier = Applier(database, source, timings=timings, chance=chance or SystemChance(), exclusive=exclusive)
        self._scan_at = 0.0
        self._done: tuple[int, str] | None = None
        """Term and fingerprint of the last pass that needs no repeating."""

    def step(self) -> float:
        """Make a pass if one is due; give the seconds until the next look. Raises NotLeaderError."""
        term = self._term()
        asked = self._database.read(lambda tx: passes.requested(tx, self._source.name))
        if asked is not None:
            self._pass(term, pass_id=asked.id, expect_digest=asked.expect_digest)
            return 0.0
        now = self._clock.elapsed()
        if now < self._scan_at and self._done is not None and self._done[0] == term.number:
            return min(_POLL_SECONDS, self._scan_at - now)
        if (term.number, self._fingerprint()) != self._done:
            self._pass(term)
        self._scan_at = self._clock.elapsed() + self._rescan_seconds
        return _POLL_SECONDS

    def _pass(self, term: Term, *, pass_id: int | None = None, expect_digest: str | None = None) -> None:
        before = self._fingerprint()
        ended = self._applier.run(term, pass_id=pass_id, expect_digest=expect_digest)
        if ended.state in OVER - {PassState.FAILED}:
            self._done = (term.number, before)
        self._scan_at = self._clock.elapsed() + self._rescan_seconds

    def _fingerprint(self) -> str:
        try:
            return fingerprint(self._source.path)
        except SourceUnavailableError:
            return _UNREADABLE
