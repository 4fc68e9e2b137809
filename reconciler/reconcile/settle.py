"""When what is on disk may be applied: two scans agree, and git is not in the middle of a checkout (G8).

A file that is being written, a checkout half done, a link about to be swapped: each looks different a moment later.
So a snapshot is applied only if a second scan, `PAUSE_SECONDS` after the first, finds the same names and contents. A
lock of git postpones; one that is older than a minute was left behind by something that died, and is only warned of.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from reconciler.clock import SECOND_US, Clock
from reconciler.reconcile.revision import Fingerprint, fingerprint
from reconciler.spec.load import DEFAULT_LIMITS
from reconciler.spec.source import Limits
from reconciler.telemetry import Event, emit

PAUSE_SECONDS: Final = 0.3
_STALE_LOCK_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class GitLockIgnored(Event):
    """A lock of git is so old that nobody holds it; files are read all the same."""

    level: ClassVar[int] = logging.WARNING
    lock: str
    age_seconds: float


class Settling:
    """Looks at a source until two looks agree. `look` never blocks."""

    def __init__(self, path: Path, *, clock: Clock, limits: Limits = DEFAULT_LIMITS) -> None:
        """Watch one source."""
        self._path = path
        self._limits = limits
        self._clock = clock
        self._seen: Fingerprint | None = None
        self._seen_at = 0.0
        self._warned_of: Path | None = None

    def look(self) -> Fingerprint | None:
        """Give what is on disk if it is settled; None means: look again in `PAUSE_SECONDS`."""
        if self._is_locked():
            self._seen = None
            return None
        found, now = fingerprint(self._path, self._limits), self._clock.elapsed()
        if found == self._seen and now - self._seen_at >= PAUSE_SECONDS:
            return found
        if found != self._seen:
            self._seen, self._seen_at = found, now
        return None

    def unsettle(self) -> None:
        """Forget what was seen: something changed since."""
        self._seen = None

    def _is_locked(self) -> bool:
        lock = git_lock(self._path)
        if lock is None:
            self._warned_of = None
            return False
        try:
            age_seconds = self._clock.now_us() / SECOND_US - lock.stat().st_mtime
        except OSError:
            return False
        if age_seconds < _STALE_LOCK_SECONDS:
            return True
        if self._warned_of != lock:
            self._warned_of = lock
            emit(GitLockIgnored(str(lock), age_seconds))
        return False


def git_lock(path: Path) -> Path | None:
    """Give the lock of the work tree that a folder lies in, if git holds it now."""
    folder = path.resolve()
    for parent in (folder, *folder.parents):
        entry = parent / ".git"
        try:
            directory = entry if entry.is_dir() else _linked(entry)
        except OSError:
            return None
        if directory is not None:
            lock = directory / "index.lock"
            return lock if lock.exists() else None
    return None


def _linked(entry: Path) -> Path | None:
    """Follow the `.git` file of a linked work tree or submodule."""
    if not entry.is_file():
        return None
    label, _, target = entry.read_text(errors="replace").strip().partition(": ")
    return (entry.parent / target).resolve() if label == "gitdir" else None
