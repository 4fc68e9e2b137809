"""Asking the store for runs, and finding those that it granted without our hearing of it.

Law R2: what is claimed is finished or handed back. A claim whose answer was lost holds runs for this session that
nobody here knows of; they are read back, soon after an answer was lost and now and then anyway: what was under way at
the first look may arrive after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from reconciler.clock import SECOND_US, Clock
from reconciler.errors import StoreUnavailableError
from reconciler.model.lease import Session
from reconciler.model.run import AttemptOutcome, Claim, Outcome
from reconciler.store import claiming, claims
from reconciler.store.database import Database
from reconciler.telemetry import emit
from reconciler.worker.events import RunsClaimed, StrayFound
from reconciler.worker.options import WorkerOptions
from reconciler.worker.pace import Pace

UNHEARD: Final = "the answer to its claim was lost; it never started"
_LOOK_AGAIN_SECONDS: Final = 1.0


class Claiming:
    """Claims for one worker; its `pace` says when to ask."""

    def __init__(self, options: WorkerOptions, database: Database, *, clock: Clock) -> None:
        self._options = options
        self._database = database
        self._clock = clock
        self.pace = Pace(options.timings.poll_min_seconds, options.timings.poll_max_seconds)
        self._looks_every = options.timings.lease_seconds / 3
        self._look_at = clock.elapsed() + self._looks_every

    def claim(self, session: Session, free: int) -> Sequence[Claim]:
        """Take up to `free` runs. Raises SessionLostError, StoreUnavailableError (then runs may be ours)."""
        options, asked_at = self._options, self._clock.elapsed()
        try:
            won = self._database.tx(
                lambda tx: claiming.claim(tx, session, limit=free, handlers=options.handlers, queues=options.queues)
            )
        except StoreUnavailableError:
            self._look_at = 0.0
            raise
        waited = [each.waited_us / SECOND_US for each in won]
        emit(RunsClaimed(options.name, self._clock.elapsed() - asked_at, waited))
        return won

    def strays(self, session: Session, known: Callable[[], set[tuple[int, int]]]) -> Sequence[Outcome]:
        """Give the runs to hand back that the session holds and `known`, by id and fence, does not name.

        Call it in the thread that claims: `known` is asked before the store, and nothing is claimed in between.
        """
        now = self._clock.elapsed()
        if now < self._look_at:
            return []
        self._look_at = now + _LOOK_AGAIN_SECONDS
        ours = known()
        held = self._database.read(lambda tx: claims.held_by(tx, session))
        self._look_at = now + self._looks_every
        return [self._stray(run_id, fence) for run_id, fence in held if (run_id, fence) not in ours]

    def _stray(self, run_id: int, fence: int) -> Outcome:
        emit(StrayFound(self._options.name, run_id, fence))
        now_us = self._clock.now_us()
        return Outcome(run_id, fence, 0, AttemptOutcome.HANDED_BACK, now_us, now_us, error=UNHEARD)
