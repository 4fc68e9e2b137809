"""A lane of its own for who has waited long to write into an SQLite file, so that none is starved by the others.

SQLite has one write lock and no queue before it: who gave it back takes it again before any that waits looks once more,
and which of those gets it is chance. That costs the least time while everybody's turn comes soon; but chance may leave
one behind for seconds, and a leader that cannot renew its term for so long loses it. So every writer passes a
turnstile, a lock on a file beside the store, and who has waited for a tenth of a second closes it: the others stand
before it until that one holds the write lock.

Law: fairness only, never safety. Who finds it closed for too long, by a process that was stopped there, passes it by;
the kernel opens what a process that died had closed.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from pathlib import Path
from typing import Final, Protocol

from reconciler.clock import Chance, Clock

_PATIENT_SECONDS: Final = 0.1
_HELD_BACK_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.004
_PAUSE_SECONDS: Final = 0.02
_PAUSE_ALONE_SECONDS: Final = 0.002


class Turnstile(Protocol):
    """What a writer passes each time it looks for the lock."""

    def enter(self) -> None:
        """Wait while another keeps it closed, or for a second at most; close it if one has waited for long oneself."""

    def leave(self) -> None:
        """Open it: one holds the lock, or looks for it no more."""

    def pause(self) -> float:
        """Give the seconds until one should look again, by chance, so that two do not meet again."""


class OpenTurnstile:
    """Where nobody need queue: on PostgreSQL, and to read."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def enter(self) -> None:
        """Pass."""

    def leave(self) -> None:
        """Pass."""

    def pause(self) -> float:
        """Give the seconds until one should look again, by chance, so that two do not meet again."""
        return self._chance.fraction() * _PAUSE_SECONDS


class FileTurnstile:
    """A lock on the file `<store>-turn`, for the one writer of this process (one thread at a time)."""

    def __init__(self, store: Path, *, clock: Clock, chance: Chance) -> None:
        self._path = store.with_name(f"{store.name}-turn")
        self._clock = clock
        self._chance = chance
        self._never = threading.Event()
        self._file: int | None = None
        self._since: float | None = None
        self._has_closed_it = False

    def enter(self) -> None:
        """Wait while another keeps it closed, or for a second at most; close it if one has waited for long oneself."""
        entered_at = now = self._clock.elapsed()
        if self._since is None:
            self._since = now
        while not self._passes(is_patient=now < self._since + _PATIENT_SECONDS):
            if now >= entered_at + _HELD_BACK_SECONDS:
                return
            self._clock.wait(self._never, self._chance.fraction() * _LOOK_SECONDS)
            now = self._clock.elapsed()

    def leave(self) -> None:
        """Open it: one holds the lock, or looks for it no more."""
        self._since = None
        if self._has_closed_it and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._has_closed_it = False

    def pause(self) -> float:
        """Give the seconds until one should look again, by chance, so that two do not meet again."""
        return self._chance.fraction() * (_PAUSE_ALONE_SECONDS if self._has_closed_it else _PAUSE_SECONDS)

    def _passes(self, *, is_patient: bool) -> bool:
        """Tell whether nobody else keeps it closed, and close it unless one is patient.

        True, too, where there can be no such file: the store itself will tell why.
        """
        if self._has_closed_it:
            return True
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
                weakref.finalize(self, os.close, self._file)
            fcntl.flock(self._file, (fcntl.LOCK_SH if is_patient else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if is_patient:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except BlockingIOError:
            return False
        except OSError:
            return True
        self._has_closed_it = not is_patient
        return True
