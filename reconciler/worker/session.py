"""The worker's session in the store: opened, kept alive by the guard, ended; one at a time.

Law: an expired session is never used again (I4). Its jobs are ended first, then it is ended in the store, then a new
one with a new epoch is opened.
"""

from __future__ import annotations

import math

from reconciler.clock import SECOND_US, Chance, Clock, pid
from reconciler.errors import ReconcilerError
from reconciler.model.lease import Session
from reconciler.store import nodes
from reconciler.store.database import Database, Tx
from reconciler.telemetry import emit
from reconciler.worker.events import LeaseRenewed, SessionClosed, SessionLost, SessionOpened, StoreFailed
from reconciler.worker.options import WorkerOptions


class Membership:
    """Whether and as what this worker may claim."""

    def __init__(self, options: WorkerOptions, database: Database, *, clock: Clock, chance: Chance) -> None:
        self._options = options
        self._database = database
        self._clock = clock
        self._chance = chance
        self._old: Session | None = None
        self._next_try_at = 0.0
        self._draining_noted = False
        self.session: Session | None = None
        self.asked_at = 0.0
        """CLOCK_BOOTTIME from before the request that the lease counts from."""

    @property
    def is_overdue(self) -> bool:
        """Whether the guard should have ended everything by now, and evidently did not: it hangs."""
        timings = self._options.timings
        limit = self.asked_at + timings.lease_seconds - timings.margin_seconds / 2 if self.session else math.inf
        return self._clock.elapsed() >= limit

    @property
    def is_ending(self) -> bool:
        """Whether the lease was not renewed for so long that jobs are about to be stopped: nothing is begun then."""
        timings = self._options.timings
        begins_for = timings.lease_seconds * 2 / 3 - timings.margin_seconds
        return self._clock.elapsed() >= self.asked_at + begins_for

    def renewed(self, epoch: int, asked_at: float, seconds: float) -> None:
        """Note that the guard renewed the lease, on a request that took so long."""
        emit(LeaseRenewed(self._options.name, seconds))
        if self.session is not None and self.session.epoch == epoch:
            self.asked_at = max(self.asked_at, asked_at)

    def lose(self, epoch: int, reason: str) -> bool:
        """Stop using the session of that epoch; False if it is not the current one."""
        if self.session is None or self.session.epoch != epoch:
            return False
        emit(SessionLost(self._options.name, self.session.node_id, reason))
        self._old, self.session, self._draining_noted = self.session, None, False
        return True

    def open(self) -> Session | None:
        """Open a new session, ending the lost one first; None when the store cannot be asked (try again later)."""
        if self._clock.elapsed() < self._next_try_at:
            return None
        try:
            if self._old is not None:
                self.end(self._old)
            self.asked_at = self._clock.elapsed()
            self.session = self._register()
        except ReconcilerError as fault:
            emit(StoreFailed(self._options.name, "register", str(fault)))
            self._next_try_at = self._clock.elapsed() + self._options.timings.poll_max_seconds
            return None
        self._old = None
        emit(SessionOpened(self._options.name, self.session.node_id, self._options.slots))
        return self.session

    def leave_to_lease(self) -> None:
        """Do not end the lost session early: something that could not be killed may still run under it."""
        self._old = None

    def end(self, session: Session) -> None:
        """End a session in the store; only after its jobs are gone. Raises StoreUnavailableError."""
        self._database.tx(lambda tx: nodes.end(tx, session))

    def close(self, session: Session) -> None:
        """End the session as the node stops. Raises StoreUnavailableError."""
        self.end(session)
        emit(SessionClosed(self._options.name, session.node_id))

    def note_draining(self) -> None:
        """Tell the store that this session claims nothing more."""
        session = self.session
        if session is None or self._draining_noted or self._clock.elapsed() < self._next_try_at:
            return
        try:
            self._database.tx(lambda tx: nodes.drain(tx, session))
            self._draining_noted = True
        except ReconcilerError as fault:
            emit(StoreFailed(self._options.name, "drain", str(fault)))
            self._next_try_at = self._clock.elapsed() + self._options.timings.poll_max_seconds

    def _register(self) -> Session:
        options, secret = self._options, self._chance.token()

        def register(tx: Tx) -> Session:
            return nodes.register(
                tx,
                options.name,
                host=options.host,
                pid=pid(),
                secret=secret,
                queues=options.queues,
                handlers=options.handlers,
                tags=options.tags,
                slots=options.slots,
                lease_us=round(options.timings.lease_seconds * SECOND_US),
            )

        return self._database.tx(register)
