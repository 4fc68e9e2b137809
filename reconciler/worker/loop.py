"""The worker's loop: claim, have the guard run it, write back what came of it.

`step` does what can be done now; `wait` sleeps until there is more to do.

Laws: a job runs under the session and fence of its claim and nothing is written under another (I3); what is claimed is
finished or handed back, never dropped while its session lives; a fault of the store or of one run stops neither the
loop nor the other runs (X1, X2).
"""

from __future__ import annotations

import select
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from reconciler.clock import Chance, Clock
from reconciler.errors import SessionLostError, StoreUnavailableError
from reconciler.model.lease import Session
from reconciler.model.run import CANCEL_WANTED, AttemptOutcome, Outcome, RunState
from reconciler.store import claims
from reconciler.store.database import Database
from reconciler.telemetry import emit
from reconciler.worker.claiming import Claiming
from reconciler.worker.events import (
    GuardDied,
    RenewalMissed,
    RunEnded,
    RunStarted,
    RunStopped,
    StepFailed,
    StoreFailed,
)
from reconciler.worker.flush import Flusher
from reconciler.worker.hinting import Hinting
from reconciler.worker.logs import Logs, appending
from reconciler.worker.options import WorkerOptions
from reconciler.worker.output import Reader
from reconciler.worker.pace import Drain, Pace, Silence
from reconciler.worker.process import GuardProcess
from reconciler.worker.runs import DRAINED, GUARD_DIED, Held, HeldRuns
from reconciler.worker.session import Membership
from reconciler.worker.start import Started, Starter
from reconciler.worker.wire import (
    LEASE_OVER,
    Adopt,
    Exited,
    Lost,
    RenewalFailed,
    Renewed,
    Setup,
    Spawned,
    SpawnFailed,
    Stop,
    ToWorker,
    Waker,
)

_LONGEST_WAIT_SECONDS: Final = 0.25
"""The loop turns at least this often, so that the guard hears of it and no local deadline is missed by much."""
_CANCELS_EVERY_SECONDS: Final = 1.0
_TRY_AGAIN_SECONDS: Final = 1.0

Launch = Callable[[Setup], GuardProcess]
"""Starts a guard."""


class Worker:
    """One node: a session, a guard, and the runs in its hands."""

    def __init__(
        self, options: WorkerOptions, *, database: Database, launch: Launch, clock: Clock, chance: Chance
    ) -> None:
        """Start the guard, then everything else: no thread of the worker is older than its guard."""
        self._options = options
        self._database = database
        self._launch = launch
        self._clock = clock
        self._scratch = Path(tempfile.mkdtemp(prefix="reconciler-"))
        self._guard = self._start_guard()
        self._silence = Silence()
        self.waker = Waker()
        self._reader = Reader(self.waker.wake, clock=clock)
        logs = Logs(options.name, appending(database), clock=clock)
        self._held = HeldRuns(self._scratch, self._reader, logs, clock=clock)
        self._flusher = Flusher(
            options.name, self._finish, read_back=self._read_back, logs=logs, clock=clock, wake=self.waker.wake
        )
        self._membership = Membership(options, database, clock=clock, chance=chance)
        self._starter = Starter(options, database, self._held)
        self._drain = Drain(options)
        self._claims = Claiming(options, database, clock=clock)
        self._claiming = self._claims.pace
        self._hinting = Hinting(database, wake=self.waker.wake)
        self._starting = Pace(_TRY_AGAIN_SECONDS, _TRY_AGAIN_SECONDS)
        self._cancelling = Pace(_CANCELS_EVERY_SECONDS, _CANCELS_EVERY_SECONDS)

    def run(self) -> bool:
        """Turn until drained; False when the drain was cut short by a second request."""
        while not self.is_done:
            self.step()
            self.wait()
        self.close()
        return not self._drain.is_hurried

    def drain(self) -> None:
        """Ask the worker to claim nothing more and to end when its jobs have; asked twice, to end them now.

        May be called from any thread, and from a signal handler.
        """
        self._drain.ask()
        self.waker.wake()

    @property
    def jobs(self) -> int:
        """How many runs are in its hands."""
        return len(self._held)

    @property
    def is_done(self) -> bool:
        """Whether the worker is drained and every result is written, or nothing can be written any more."""
        return self._drain.is_over(len(self._held), self._flusher.is_idle, self._clock.elapsed())

    def step(self) -> None:
        """Do everything that can be done now."""
        for step in (
            self._hear_guard,
            self._take_lost_sessions,
            self._report_ended,
            self._keep_session,
            self._stop_cancelled,
            self._drain_on,
            self._hand_back_strays,
            self._claim,
            self._start_claimed,
            self._guard.say_alive,
        ):
            self._survive(step)

    def wait(self) -> None:
        """Sleep until a message, an ended output or result, a signal, or the next poll."""
        now = self._clock.elapsed()
        longest = min(_LONGEST_WAIT_SECONDS, self._options.timings.heartbeat_seconds / 4)
        until_poll = self._claiming.next_at - now if self._may_claim() else longest
        poll = select.poll()
        if not self._guard.is_gone:
            poll.register(self._guard, select.POLLIN | (select.POLLOUT if self._guard.is_behind else 0))
        poll.register(self.waker, select.POLLIN)
        poll.poll(max(0.0, min(until_poll, longest)) * 1000)
        self.waker.clear()

    def close(self) -> None:
        """End the session, then the guard, then our threads; after that the worker is of no use."""
        if (session := self._membership.session) is not None:
            self._survive(lambda: self._membership.close(session))
        self._guard.leave()
        self._flusher.close()
        self._reader.close()
        self._hinting.close()
        self._database.close()
        self.waker.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _survive(self, step: Callable[[], object]) -> None:
        """A loop survives a bad turn."""
        try:
            step()
        except StoreUnavailableError as fault:
            emit(StoreFailed(self._options.name, step.__name__.strip("_"), str(fault)))
        except Exception as fault:  # noqa: BLE001 - whatever it is, the other runs go on
            emit(StepFailed(self._options.name, step.__name__.strip("_"), f"{type(fault).__name__}: {fault}"))

    def _hear_guard(self) -> None:
        for message in self._guard.hear():
            self._hear(message)
        is_hung = self._silence.is_hung(self._clock.elapsed(), is_overdue=self._membership.is_overdue)
        if self._guard.is_gone or is_hung:
            self._replace_guard()

    def _hear(self, message: ToWorker) -> None:
        match message:
            case Spawned(job, pid) if held := self._held.named(job):
                claim = held.claim
                emit(RunStarted(self._options.name, claim.run_id, claim.fence, claim.attempt, held.definition, pid))
            case SpawnFailed(job, error) if held := self._held.named(job):
                result = AttemptOutcome.HANDED_BACK if error == LEASE_OVER else AttemptOutcome.FAILED
                self._report(held, self._held.release(held, result, error=error))
            case Exited() if held := self._held.named(message.job):
                self._held.exited(held, message)
            case Renewed(epoch, asked_at, seconds):
                self._membership.renewed(epoch, asked_at, seconds)
            case RenewalFailed(_, error):
                emit(RenewalMissed(self._options.name, error))
            case Lost(epoch, reason):
                self._lose(epoch, reason)
            case _:  # about a run that is no longer held
                return

    def _replace_guard(self) -> None:
        """The guard died, or hangs past the lease: its jobs are ended, its session with them, and all begins anew."""
        started = [held for held in self._held if held.is_started and held.exited is None]
        emit(GuardDied(self._options.name, self._guard.pid, len(started)))
        is_clear = self._guard.bury()
        for held in started:
            # Left to the reaper, not handed back: a run that kills guards shall use up its lost leases.
            self._tell(self._held.release(held, AttemptOutcome.LOST_LEASE, error=GUARD_DIED))
        if (session := self._membership.session) is not None:
            self._lose(session.epoch, GUARD_DIED)
        if not is_clear:
            self._membership.leave_to_lease()
        self._clock.wait(threading.Event(), self._guard_started_at + _TRY_AGAIN_SECONDS - self._clock.elapsed())
        self._guard = self._start_guard()

    def _start_guard(self) -> GuardProcess:
        self._guard_started_at = self._clock.elapsed()
        timings = self._options.timings
        return self._launch(
            Setup(
                store_url=self._options.store_url,
                lease_seconds=timings.lease_seconds,
                heartbeat_seconds=timings.heartbeat_seconds,
                margin_seconds=timings.margin_seconds,
                scratch=str(self._scratch),
            )
        )

    def _take_lost_sessions(self) -> None:
        while not self._flusher.lost.empty():
            self._lose(self._flusher.lost.get().epoch, "a result was refused, since the session is over")

    def _lose(self, epoch: int, reason: str) -> None:
        """The session is over: nothing may run under it any more."""
        if not self._membership.lose(epoch, reason):
            return
        for held in self._held:
            if held.is_started:
                self._stop(held, LEASE_OVER, grace_seconds=0.0)
            else:
                self._report(held, self._held.release(held, AttemptOutcome.HANDED_BACK, error=LEASE_OVER))

    def _report_ended(self) -> None:
        for held, outcome in self._held.concluded():
            self._report(held, outcome)

    def _report(self, held: Held, outcome: Outcome) -> None:
        """Give a result to the flusher, which frees the slot."""
        self._flusher.put(held.session, outcome, held.log)
        self._tell(outcome)

    def _tell(self, outcome: Outcome) -> None:
        run_id, fence, node = outcome.run_id, outcome.fence, self._options.name
        if outcome.result in {AttemptOutcome.LOST_LEASE, AttemptOutcome.HANDED_BACK}:
            emit(RunStopped(node, run_id, fence, outcome.error or ""))
        else:
            emit(RunEnded(node, run_id, fence, outcome.result, outcome.exit_code, outcome.error))
        self._claiming.hurry(self._clock.elapsed())

    def _keep_session(self) -> None:
        is_free = not self._held and self._flusher.is_idle
        if (
            self._membership.session is None
            and is_free
            and not self._drain.is_asked
            and (session := self._membership.open())
        ):
            self._guard.say(Adopt(session, self._membership.asked_at))
            self._claiming.hurry(self._clock.elapsed())

    def _stop_cancelled(self) -> None:
        session = self._membership.session
        if session is None or not self._held or not self._cancelling.is_due(self._clock.elapsed()):
            return
        cancelled = self._database.read(lambda tx: claims.cancels_requested(tx, session))
        for held in self._held:
            if held.claim.run_id in cancelled and held.is_started:
                self._stop(held, CANCEL_WANTED, grace_seconds=held.grace_seconds)

    def _drain_on(self) -> None:
        if not self._drain.is_asked:
            return
        now = self._clock.elapsed()
        self._drain.begin(now, len(self._held))
        self._membership.note_draining()
        for held in self._held:
            if not held.is_started:
                self._report(held, self._held.release(held, AttemptOutcome.HANDED_BACK, error=DRAINED))
            elif self._drain.must_stop(now):
                self._stop(held, DRAINED, grace_seconds=0.0 if self._drain.is_hurried else held.grace_seconds)

    def _stop(self, held: Held, reason: str, *, grace_seconds: float) -> None:
        """Have the guard end a job; a second time only to make it harder."""
        if held.exited is None and grace_seconds < held.stopping_grace:
            held.stopping_grace = grace_seconds
            self._guard.say(Stop(held.name, reason, grace_seconds))

    def _hand_back_strays(self) -> None:
        if (session := self._membership.session) is not None:
            for stray in self._claims.strays(session, self._known):
                self._flusher.put(session, stray)

    def _known(self) -> set[tuple[int, int]]:
        return {(held.claim.run_id, held.claim.fence) for held in self._held} | self._flusher.unwritten

    def _may_claim(self) -> bool:
        is_open = self._membership.session is not None and not self._membership.is_ending
        return is_open and not self._drain.is_asked and len(self._held) < self._options.slots

    def _claim(self) -> None:
        session = self._membership.session
        if self._hinting.take():
            self._claiming.hurry(self._clock.elapsed())
        if session is None or not self._may_claim() or not self._claiming.is_due(self._clock.elapsed()):
            return
        try:
            won = self._claims.claim(session, self._options.slots - len(self._held))
        except SessionLostError as fault:
            self._lose(session.epoch, str(fault))
            return
        if won:
            self._held.take(session, won)
            self._claiming.hurry(self._clock.elapsed())
            self._starting.hurry(self._clock.elapsed())
        else:
            self._hinting.listen()

    def _start_claimed(self) -> None:
        """Hand what was claimed to the guard. A store that fails meanwhile is asked again, a bit later."""
        waiting = [held for held in self._held if not held.is_started]
        if waiting and not self._membership.is_ending and self._starting.is_due(self._clock.elapsed()):
            self._starter.prefetch(waiting)
            for held in waiting:
                self._start(held)

    def _start(self, held: Held) -> None:
        match self._starter.start(held):
            case Started(spawn, descriptors):
                self._guard.say(spawn, descriptors)
            case ended:
                self._report(held, ended)

    def _finish(self, session: Session, outcomes: Sequence[Outcome]) -> Mapping[int, RunState]:
        return self._database.tx(lambda tx: claims.finish(tx, session, outcomes))

    def _read_back(self, session: Session, outcomes: Sequence[Outcome]) -> Mapping[int, RunState]:
        return self._database.read(lambda tx: claims.recorded(tx, session, outcomes))
