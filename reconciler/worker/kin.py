"""Processes below one process: finding them all in /proc, and telling which job each belongs to.

A guard is a subreaper: whatever a job starts stays below the guard, also after a double fork or setsid, when the
parent between them is gone. So the walk from the guard finds everything, and only the question *whose* is open. It is
answered by ancestry seen so far, then by the job's session, then by the marker in the environment; a process that hid
all three belongs to one of the jobs that were running when it was first seen, and dies with the last of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.worker.wire import CLAIM_MARKER

_PROC: Final = Path("/proc")
_MARKER: Final = f"{CLAIM_MARKER}=".encode()
_DEAD_STATES: Final = frozenset("ZXx")
_LISTS_CHILDREN: Final = (_PROC / "thread-self" / "children").exists()
"""Linux keeps lists of children where it was built for them (all big distributions); else every process is asked."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38


@dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc shows it. `started` (ticks since boot) makes the pid unique."""

    pid: int
    started: int
    parent: int
    group: int
    session: int
    is_dead: bool
    """A zombie: it runs no more and only waits for its parent."""


def become_subreaper() -> None:
    """Have orphans below this process come to it instead of to init (Linux; elsewhere they are lost)."""
    _control(_PR_SET_CHILD_SUBREAPER)


def forbid_new_privileges() -> None:
    """No set-uid program gains rights below this process (security.md, rule 4); so all of it can be signalled, too."""
    _control(_PR_SET_NO_NEW_PRIVS)


def end_with_parent(parent: int) -> None:
    """Have the process that started this one take it along when it dies: SIGTERM comes, and the worker drains.

    `parent` is who that was when this process was started; where it is gone already, the signal is sent at once.
    """
    _control(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def look_at(pid: int) -> Process | None:
    """Read what /proc says about `pid`; None when there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold anything, parentheses too; the numbers follow the last one.
    state, parent, group, session, *rest = text[text.rindex(")") + 2 :].split()
    return Process(
        pid=pid,
        started=int(rest[15]),
        parent=int(parent),
        group=int(group),
        session=int(session),
        is_dead=state in _DEAD_STATES,
    )


def children(pid: int) -> list[int]:
    """Give the direct children of `pid`, whichever of its threads started them."""
    if not _LISTS_CHILDREN:
        return [each for each in _everyone() if (process := look_at(each)) and process.parent == pid]
    found: list[int] = []
    tasks = _PROC / str(pid) / "task"
    with contextlib.suppress(OSError):
        for task in os.listdir(tasks):  # noqa: PTH208 - on the kill path; Path objects cost twice as much
            with contextlib.suppress(OSError):
                found += map(int, (tasks / task / "children").read_bytes().split())
    return found


def _everyone() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]  # noqa: PTH208 - same
    return []


def descendants(top: int) -> Iterator[Process]:
    """Walk everything below `top`, parents before their children."""
    waiting = children(top)
    seen = {top}
    while waiting:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        if process := look_at(pid):
            yield process
            waiting += children(pid)


def marker_of(pid: int) -> str | None:
    """Read which job's marker the environment of `pid` carries, if we may read it."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    for entry in environment.split(b"\0"):
        if entry.startswith(_MARKER):
            return entry[len(_MARKER) :].decode(errors="replace")
    return None


def send(process: Process, number: signal.Signals) -> None:
    """Signal exactly this process, never another one that got its pid since."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(process.pid)
        try:
            now = look_at(process.pid)
            if now is not None and now.started == process.started:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def kill_everything_below(top: int, *, but: frozenset[int] = frozenset()) -> int:
    """Send KILL to everything alive below `top`, and give how many that were."""
    alive = [process for process in descendants(top) if not process.is_dead and process.pid not in but]
    for process in alive:
        send(process, signal.SIGKILL)
    return len(alive)


class Family:
    """Whose each process below the guard is. Jobs are named as in the messages (`<run id>.<fence>`)."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._roots: dict[int, str] = {}
        self._suspects: dict[tuple[int, int], frozenset[str]] = {}

    def add(self, job: str, root: int) -> None:
        """Take in a job by the process that leads it."""
        self._roots[root] = job

    def forget(self, job: str) -> None:
        """Take a job out: what only it may have started has nobody left to belong to."""
        self._roots = {root: other for root, other in self._roots.items() if other != job}
        self._suspects = {key: jobs - {job} for key, jobs in self._suspects.items()}

    def has_orphans(self, living_roots: frozenset[int]) -> bool:
        """Tell cheaply whether anything but the roots of running jobs hangs directly below the guard."""
        return any(pid not in living_roots for pid in children(self._top))

    def survey(self) -> dict[Process, frozenset[str]]:
        """Give every living process below the guard with the jobs it may belong to (none: a job that is over)."""
        found: dict[Process, frozenset[str]] = {}
        by_pid: dict[int, frozenset[str]] = {}
        for process in descendants(self._top):
            jobs = self._jobs_of(process, by_pid)
            by_pid[process.pid] = jobs
            if not process.is_dead:
                found[process] = jobs
        self._suspects = {(process.pid, process.started): jobs for process, jobs in found.items()}
        return found

    def _jobs_of(self, process: Process, by_pid: Mapping[int, frozenset[str]]) -> frozenset[str]:
        known = self._suspects.get((process.pid, process.started))
        if known is not None:
            return known
        if process.parent in by_pid:
            return by_pid[process.parent]
        job = self._roots.get(process.pid) or self._roots.get(process.session) or marker_of(process.pid)
        everyone = frozenset(self._roots.values())
        return frozenset({job}) if job in everyone else everyone


def _control(option: int, argument: int = 1) -> None:
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
