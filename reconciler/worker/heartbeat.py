"""Keeping a session's lease alive, from a thread of the guard with a connection of its own.

Laws: the lease is renewed only while the worker's loop answers; an expired session is never renewed (I4); the local
deadline counts from *before* the request was sent, so it is never later than what the store thinks. A store that hangs
holds up this thread only, never the deadlines.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from reconciler.clock import Clock
from reconciler.model.lease import Session

_TRY_AGAIN_SECONDS: Final = 1.0
"""The longest pause after a renewal that failed; shorter where heartbeats are."""
FRESH_HEARTBEATS: Final = 2.0
"""For how many heartbeats one sign of life of the worker counts."""


class Renewal(Protocol):
    """The port to the store: what keeps a session alive, and what ends it."""

    def renew(self, session: Session) -> bool:
        """Renew the lease; False when the session is over. Raises when the store could not be asked."""

    def end(self, session: Session) -> None:
        """End the session, so that others need not wait for its lease."""

    def close(self) -> None:
        """Give back what it holds."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A renewal that the store granted."""

    epoch: int
    asked_at: float
    seconds: float = 0.0
    """How long the store took to answer."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The store says that the session is over."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The store could not be asked."""

    epoch: int
    error: str


Beat = Kept | Refused | Unanswered


class Heartbeat:
    """The thread that renews. Its owner reads `beats` after each call of `wake`."""

    def __init__(
        self, renewal: Callable[[], Renewal], interval_seconds: float, *, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self.beats: queue.SimpleQueue[Beat] = queue.SimpleQueue()
        self._open = renewal
        self._renewal: Renewal | None = None
        self._interval = interval_seconds
        self._clock = clock
        self._wake = wake
        self._session: Session | None = None
        self._ending: Session | None = None
        self._next_at = 0.0
        self._fresh_until = 0.0
        self._stopping = False
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def worker_answered(self, now: float) -> None:
        """Note a sign of life of the worker's loop."""
        was_stale = self._fresh_until < now
        self._fresh_until = now + FRESH_HEARTBEATS * self._interval
        if was_stale:
            self._changed.set()

    def adopt(self, session: Session, asked_at: float) -> None:
        """Keep this session alive from now on."""
        self._next_at = asked_at + self._interval
        self._session = session
        self._changed.set()

    def drop(self) -> None:
        """Keep no session alive."""
        self._session = None

    def finish(self, session: Session | None, timeout_seconds: float) -> None:
        """Stop; if a session is given, end it in the store and wait for that, at most `timeout_seconds`."""
        self._session = None
        self._ending = session
        self._stopping = True
        self._changed.set()
        if session is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._stopping:
            self._changed.clear()
            session, now = self._session, self._clock.elapsed()
            if session is not None and now >= self._next_at and now < self._fresh_until:
                self._beat(session)
            self._clock.wait(self._changed, self._pause())
        if self._ending is not None:
            self._end(self._ending)
        if self._renewal is not None:
            self._renewal.close()

    def _beat(self, session: Session) -> None:
        asked_at = self._clock.elapsed()
        beat: Beat
        try:
            renewed = self._store().renew(session)
            took = self._clock.elapsed() - asked_at
            beat = Kept(session.epoch, asked_at, took) if renewed else Refused(session.epoch)
            self._next_at = asked_at + self._interval
        except Exception as fault:  # noqa: BLE001 - whatever the store throws, the next try may succeed
            beat = Unanswered(session.epoch, f"{type(fault).__name__}: {fault}")
            self._next_at = self._clock.elapsed() + min(_TRY_AGAIN_SECONDS, self._interval / 2)
        self.beats.put(beat)
        self._wake()

    def _pause(self) -> float:
        if self._session is None:
            return self._interval
        now = self._clock.elapsed()
        return max(0.0, self._next_at - now) if now < self._fresh_until else self._interval

    def _end(self, session: Session) -> None:
        with contextlib.suppress(Exception):  # once: where this fails the lease ends by itself
            self._store().end(session)

    def _store(self) -> Renewal:
        if self._renewal is None:
            self._renewal = self._open()
        return self._renewal
