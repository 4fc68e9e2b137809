"""Worker processes, by the rules of `reconciler.worker`: a loop claims, another thread reports, a guard renews.

Reports are kept until the store answers, and sent again; the loop meanwhile goes on claiming.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from reconciler.clock import SECOND_US
from reconciler.errors import SessionLostError, StoreUnavailableError
from reconciler.model.lease import Session
from reconciler.model.run import AttemptOutcome, Outcome
from reconciler.store import claiming, claims, nodes
from reconciler.store.database import Tx
from tests.protocol.simulation.cast import Process
from tests.protocol.simulation.jobs import Jobs, Seen
from tests.protocol.simulation.plan import LEASE_US, TIMINGS
from tests.protocol.simulation.stage import Seat, Stage
from tests.protocol.simulation.world import World

T = TypeVar("T")

HANDLERS: Final = ("slow",)
_SLOTS: Final = 2
_POLL_SECONDS: Final = 1.5
_AGAIN_SECONDS: Final = 0.5
_IDLE_SECONDS: Final = 60.0
_CANCELS_US: Final = SECOND_US
_FRESH_US: Final = round(2 * TIMINGS.heartbeat_seconds * SECOND_US)
_LEAVES: Final = 0.02


class Node:
    """One start of a worker process."""

    def __init__(self, stage: Stage, world: World, process: Process, seen: Seen) -> None:
        """Begin with no session."""
        self._world = world
        self._process = process
        self._seen = seen
        self._seat, self._reporter, self._keeper = (
            stage.seat(name) for name in (process.name, f"{process.name}/reports", f"{process.name}/guard")
        )
        for seat in (self._seat, self._reporter, self._keeper):
            seat.begin(process.starts)
        self._jobs = Jobs(process, self._seat, seen, over=self._over, world=world)
        self._session: Session | None = None
        self._old: Session | None = None
        self._results: list[tuple[Session, Outcome]] = []
        self._answered_us = world.elapsed_us
        self._cancels_us = 0
        self._is_unsure = False
        self._is_leaving = False

    def loop(self) -> None:
        """Turn until the node leaves cleanly."""
        while not self._has_left():
            self._answered_us = self._world.elapsed_us
            pause = _POLL_SECONDS
            for step in (self._jobs.settle, self._keep_session, self._stop_cancelled, self._read_back, self._claim):
                try:
                    step()
                except StoreUnavailableError:
                    pause = _AGAIN_SECONDS
            self._is_leaving = self._is_leaving or self._seat.fraction() < _LEAVES
            next_us = self._jobs.next_us()
            if next_us is not None:
                pause = min(pause, max(0, next_us - self._world.elapsed_us) / SECOND_US)
            self._world.sleep(pause)

    def reports(self) -> None:
        """Write what has ended; what could not be written is kept, and sent again."""
        while True:
            pause = _IDLE_SECONDS
            if self._results:
                try:
                    self._report()
                except StoreUnavailableError:
                    pause = self._reporter.whole(100, 3000) / 1000
            if not self._results or pause != _IDLE_SECONDS:
                self._world.sleep(pause)

    def guard(self) -> None:
        """Renew the lease while the loop answers."""
        while True:
            now_us, session = self._world.elapsed_us, self._session
            pause = TIMINGS.heartbeat_seconds
            if session is not None and now_us - self._answered_us <= _FRESH_US:
                try:
                    self._renew(session, now_us)
                except StoreUnavailableError:
                    pause = _AGAIN_SECONDS
            self._world.sleep(pause)

    def _renew(self, session: Session, asked_us: int) -> None:
        kept = self._write(self._keeper, session, lambda tx: nodes.renew(tx, session, lease_us=LEASE_US))
        self._jobs.settle()  # what its old deadline ended is over, however long the answer took
        if kept is None:
            self._lose(session)
        elif session is self._session:
            self._jobs.granted(asked_us, is_new=False)

    def _over(self, session: Session, outcome: Outcome) -> None:
        self._results.append((session, outcome))
        self._world.wake(f"{self._process.name}/reports")

    def _report(self) -> None:
        session = self._results[0][0]
        batch = [outcome for of, outcome in self._results if of is session]
        reports = {each.run_id: each.fence for each in batch}
        accepted: set[int] = set()
        try:
            accepted = self._write(
                self._reporter, session, lambda tx: set(claims.finish(tx, session, batch)), reports=reports
            )
        except SessionLostError:
            self._lose(session)
        self._results = [(of, outcome) for of, outcome in self._results if outcome not in batch]
        self._seen.acknowledged += [(each.run_id, each.fence, each.result) for each in batch if each.run_id in accepted]
        self._seen.refused += len(batch) - len(accepted)

    def _keep_session(self) -> None:
        if self._session is not None or self._jobs or self._results or self._is_leaving:
            return
        if (old := self._old) is not None:
            self._write(self._seat, old, lambda tx: nodes.end(tx, old))
            self._old = None
        asked_us, secret = self._world.elapsed_us, self._seat.token()
        self._session = self._seat.database.tx(
            lambda tx: nodes.register(
                tx,
                self._process.name,
                host="here",
                pid=self._process.starts,
                secret=secret,
                queues=None,
                handlers=HANDLERS,
                tags=(),
                slots=_SLOTS,
                lease_us=LEASE_US,
            )
        )
        self._jobs.granted(asked_us, is_new=True)

    def _lose(self, session: Session) -> None:
        """A session is over: its jobs are ended at once."""
        if session is self._session:
            self._old, self._session, self._is_unsure = session, None, False
            self._jobs.stop(None, AttemptOutcome.LOST_LEASE)

    def _stop_cancelled(self) -> None:
        session, now_us = self._session, self._world.elapsed_us
        if session is not None and self._jobs and now_us >= self._cancels_us:
            self._cancels_us = now_us + _CANCELS_US
            cancelled = self._seat.database.read(lambda tx: claims.cancels_requested(tx, session))
            self._jobs.stop(cancelled, AttemptOutcome.CANCELLED)

    def _read_back(self) -> None:
        """Give back what a claim took whose answer was lost; nobody else knows of it."""
        session = self._session
        if session is None or not self._is_unsure:
            return
        known = self._jobs.keys | {(outcome.run_id, outcome.fence) for _, outcome in self._results}
        for run_id, fence in self._seat.database.read(lambda tx: claims.held_by(tx, session)):
            if (run_id, fence) not in known:
                self._over(session, Outcome(run_id, fence, 0, AttemptOutcome.HANDED_BACK, 0, 0))
        self._is_unsure = False

    def _claim(self) -> None:
        session, free = self._session, _SLOTS - len(self._jobs)
        if session is None or self._is_leaving or self._is_unsure or free <= 0:
            return
        self._is_unsure = self._seen.reads_back
        try:
            won = self._write(
                self._seat, session, lambda tx: claiming.claim(tx, session, limit=free, handlers=HANDLERS, queues=None)
            )
        except SessionLostError:
            self._lose(session)
            return
        self._is_unsure = False
        for claim in won:
            self._jobs.start(session, claim)
        if session is not self._session:  # it was lost while the answer came
            self._jobs.stop(None, AttemptOutcome.LOST_LEASE)

    def _has_left(self) -> bool:
        """Leave cleanly: what runs is given back, what is known is written, then the session is ended."""
        if not self._is_leaving:
            return False
        session = self._session
        self._jobs.stop(None, AttemptOutcome.HANDED_BACK)
        if self._results or session is None:
            return not self._results
        try:
            self._write(self._seat, session, lambda tx: nodes.drain(tx, session))
            self._write(self._seat, session, lambda tx: nodes.end(tx, session))
        except StoreUnavailableError:
            return False
        return True

    def _write(
        self, seat: Seat, session: Session, fn: Callable[[Tx], T], *, reports: Mapping[int, int] | None = None
    ) -> T:
        with self._world.acting(node_id=session.node_id, reports=reports):
            return seat.database.tx(fn)


def node_process(stage: Stage, world: World, name: str, seen: Seen) -> Process:
    """Make a worker process that comes back under its name whenever it is gone."""

    def bodies(process: Process) -> Sequence[tuple[str, Callable[[], None]]]:
        node = Node(stage, world, process, seen)
        return [
            (process.name, node.loop),
            (f"{process.name}/reports", node.reports),
            (f"{process.name}/guard", node.guard),
        ]

    return Process(name, bodies)
