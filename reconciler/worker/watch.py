"""The loop of the guard process: what its worker says, what its jobs do, what its lease allows.

The guard answers its worker, and ends the jobs when the worker is gone, silent past its lease, or fenced out. It blocks
only in `poll`; the store is reached from the heartbeat's thread alone.
"""

from __future__ import annotations

import math
import os
import select
import shutil
import signal
from collections.abc import Callable, Sequence
from typing import Final

from reconciler.clock import Clock
from reconciler.model.lease import Session
from reconciler.worker.heartbeat import Heartbeat, Kept, Refused, Renewal, Unanswered
from reconciler.worker.warden import Warden
from reconciler.worker.wire import (
    LEASE_OVER,
    Adopt,
    Alive,
    Channel,
    Leave,
    Lost,
    RenewalFailed,
    Renewed,
    Setup,
    Spawn,
    SpawnFailed,
    Stop,
    Waker,
)

_LONGEST_WAIT_SECONDS: Final = 1.0
"""`poll` counts CLOCK_MONOTONIC, which stands still while a laptop sleeps: look at the real clock this often."""
WORKER_GONE: Final = "the worker is gone"
"""Why jobs were stopped when the worker process ended."""
OpenRenewal = Callable[[Setup], Renewal]
"""Opens the port to the store; called in the heartbeat's thread."""


class Guard:
    """One worker's guard. `run` returns when the worker is gone and nothing of its jobs is left."""

    def __init__(self, channel: Channel, renewal: OpenRenewal, *, clock: Clock) -> None:
        self._channel = channel
        self._renewal = renewal
        self._clock = clock
        self._warden = Warden()
        self._setup: Setup | None = None
        self._heartbeat: Heartbeat | None = None
        self._session: Session | None = None
        self._kill_at = math.inf
        self._leaving = False
        self._waker = Waker()

    def run(self) -> None:
        """Serve the worker until it is gone or says goodbye."""
        _wake_on_signals(self._waker)
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        while self._channel.is_open and not self._leaving:
            writing = select.POLLOUT if self._channel.unsent else 0
            poll.register(self._channel.fileno(), select.POLLIN | writing)
            poll.poll(self._wait_seconds() * 1000)
            self._waker.clear()
            self.turn(self._clock.elapsed())
        poll.unregister(self._channel.fileno())
        self._clear_up(poll)

    def turn(self, now: float) -> None:
        """Do everything that is due now."""
        self._channel.flush()
        for received in self._channel.receive():
            try:
                self._hear(received.message, received.descriptors, now)
            finally:
                for descriptor in received.descriptors:
                    os.close(descriptor)
        self._take_beats(now)
        if now >= self._kill_at:
            self._lose("it could not be renewed in time", now)
        self._end_jobs(now)

    def _hear(self, message: object, descriptors: Sequence[int], now: float) -> None:
        match message:
            case Alive():
                if self._heartbeat:
                    self._heartbeat.worker_answered(now)
            case Spawn() if self._session is None or self._session.epoch != message.epoch:
                self._channel.send(SpawnFailed(message.job, LEASE_OVER))
            case Spawn():
                self._channel.send(self._warden.spawn(message, descriptors, now))
            case Stop(job, reason, grace_seconds):
                self._warden.stop(job, reason, grace_seconds, now)
            case Adopt(session, asked_at):
                self._adopt(session, asked_at, now)
            case Setup():
                self._set_up(message)
            case Leave():
                self._session, self._leaving = None, True
            case _:
                raise TypeError(f"a worker does not say {message!r}")

    def _set_up(self, setup: Setup) -> None:
        self._setup = setup
        self._heartbeat = Heartbeat(
            lambda: self._renewal(setup), setup.heartbeat_seconds, clock=self._clock, wake=self._waker.wake
        )
        self._heartbeat.start()

    def _adopt(self, session: Session, asked_at: float, now: float) -> None:
        if not self._setup or not self._heartbeat:
            raise TypeError("the worker must say Setup before Adopt")
        self._session = session
        self._granted(asked_at)
        self._heartbeat.worker_answered(now)
        self._heartbeat.adopt(session, asked_at)

    def _granted(self, asked_at: float) -> None:
        if self._setup:
            self._kill_at = asked_at + self._setup.lease_seconds - self._setup.margin_seconds

    def _take_beats(self, now: float) -> None:
        while self._heartbeat and not self._heartbeat.beats.empty():
            beat = self._heartbeat.beats.get()
            if self._session is None or beat.epoch != self._session.epoch:
                continue
            match beat:
                case Kept(epoch, asked_at, seconds):
                    self._granted(asked_at)
                    self._channel.send(Renewed(epoch, asked_at, seconds))
                case Refused():
                    self._lose("the store says that it is over", now)
                case Unanswered(epoch, error):
                    self._channel.send(RenewalFailed(epoch, error))

    def _lose(self, reason: str, now: float) -> None:
        """The lease is over, by the store's word or by our own clock: end everything that ran under it."""
        if self._session is None or self._heartbeat is None:
            return
        self._heartbeat.drop()
        self._warden.kill_all(LEASE_OVER, now)
        self._channel.send(Lost(self._session.epoch, reason))
        self._session, self._kill_at = None, math.inf

    def _end_jobs(self, now: float) -> None:
        for exited in self._warden.turn(now, lease_kill_at=self._kill_at, term_before_seconds=self._term_before()):
            self._channel.send(exited)

    def _term_before(self) -> float:
        return self._setup.lease_seconds / 3 if self._setup else 0.0

    def _wait_seconds(self) -> float:
        now = self._clock.elapsed()
        due_at = self._warden.next_at(now, lease_kill_at=self._kill_at, term_before_seconds=self._term_before())
        return max(0.0, min(due_at - now, self._kill_at - now, _LONGEST_WAIT_SECONDS))

    def _clear_up(self, poll: select.poll) -> None:
        """The worker is gone: end its jobs, then its session (never before), then what the jobs left on disk."""
        session, self._kill_at = self._session, math.inf
        self._warden.kill_all(WORKER_GONE, self._clock.elapsed())
        survivors = 0
        while not self._warden.is_idle:
            for exited in self._warden.turn(self._clock.elapsed(), lease_kill_at=math.inf, term_before_seconds=0.0):
                survivors += exited.survivors
            if not self._warden.is_idle:
                poll.poll(self._wait_seconds() * 1000)
                self._waker.clear()
        if self._heartbeat and self._setup:
            # A process that cannot be killed may still write: then the lease keeps others away to its very end.
            self._heartbeat.finish(None if survivors else session, self._setup.lease_seconds)
            shutil.rmtree(self._setup.scratch, ignore_errors=True)
        self._channel.close()


def _wake_on_signals(waker: Waker) -> None:
    """Have ended children wake the loop, and let no signal meant for the worker end its guard.

    A handler that does nothing, not SIG_IGN: ignored signals would stay ignored in every job.
    """
    signal.set_wakeup_fd(waker.signal_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
