"""The jobs of a guard, from spawn to the last process of each tree.

Laws: a job that runs longer than its timeout gets TERM, and KILL after its grace period, it and every process it
started (R8). A job is reported as over only when nothing of its tree is left. No job outlives the lease it was started
under: at `kill_at` of the lease everything gets KILL (I5, I6).
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from reconciler.worker.kin import Family, Process, send
from reconciler.worker.wire import LEASE_OVER, Exited, Spawn, Spawned, SpawnFailed

_LOOK_AGAIN_SECONDS: Final = 0.02
"""How often a dying tree is looked at."""
_SURVEY_SECONDS: Final = 0.5
"""How often the ancestry of running jobs is noted, so that later it is known whose an orphan is."""
_PATIENCE_SECONDS: Final = 5.0
"""How long KILL may take before the job is reported with survivors (a process in a broken disk's queue never dies)."""


class Phase(Enum):
    """Where a job stands on its way out."""

    RUNNING = auto()
    ENDING = auto()
    """TERM was sent; KILL follows at `kill_at`."""
    KILLING = auto()


@dataclass(slots=True)
class Held:
    """One job of the guard."""

    job: str
    process: subprocess.Popen[bytes]
    timeout_at: float
    grace_seconds: float
    phase: Phase = Phase.RUNNING
    kill_at: float = math.inf
    give_up_at: float = math.inf
    timed_out: bool = False
    stopped: str | None = None
    signals_sent: list[str] = field(default_factory=list)
    leftovers: set[tuple[int, int]] = field(default_factory=set)
    survivors: int = 0

    @property
    def root_is_gone(self) -> bool:
        """Whether the process that leads the job has ended."""
        return self.process.returncode is not None


class Warden:
    """Starts jobs, watches their deadlines and ends their trees. `turn` never blocks."""

    def __init__(self) -> None:
        self._jobs: dict[str, Held] = {}
        self._family = Family(os.getpid())
        self._survey_at = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether no job is left."""
        return not self._jobs

    def spawn(self, wanted: Spawn, descriptors: Sequence[int], now: float) -> Spawned | SpawnFailed:
        """Start a job in a session of its own; the descriptors stay the caller's to close."""
        output, errors, *rest = descriptors
        try:
            process = subprocess.Popen(
                list(wanted.argv),
                executable=wanted.program,
                env=dict(wanted.env),
                cwd=wanted.cwd,
                stdin=rest[0] if rest else subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except (OSError, ValueError) as fault:
            return SpawnFailed(wanted.job, _why_not(wanted, fault))
        self._jobs[wanted.job] = Held(wanted.job, process, now + wanted.timeout_seconds, wanted.grace_seconds)
        self._family.add(wanted.job, process.pid)
        return Spawned(wanted.job, process.pid)

    def stop(self, job: str, reason: str, grace_seconds: float, now: float) -> None:
        """End one job: TERM now, KILL after the grace period."""
        if held := self._jobs.get(job):
            held.stopped = held.stopped or reason
            self._end(held, now, now + grace_seconds)

    def kill_all(self, reason: str, now: float) -> None:
        """End every job at once."""
        for held in self._jobs.values():
            held.stopped = held.stopped or reason
            self._kill(held, now)

    def turn(self, now: float, *, lease_kill_at: float, term_before_seconds: float) -> list[Exited]:
        """Do what is due and give the jobs that are over, trees included."""
        self._reap()
        for held in self._jobs.values():
            self._advance(held, now, lease_kill_at, term_before_seconds)
        over = self._clear(now)
        for held in over:
            del self._jobs[held.job]
            self._family.forget(held.job)
        return [_report(held) for held in over]

    def next_at(self, now: float, *, lease_kill_at: float, term_before_seconds: float) -> float:
        """Give the instant at which `turn` has something to do again if nothing happens before."""
        if not self._jobs:
            return math.inf
        instants = [self._survey_at]
        for held in self._jobs.values():
            if held.phase is Phase.KILLING:
                return now + _LOOK_AGAIN_SECONDS
            lease_at = lease_kill_at - min(held.grace_seconds, term_before_seconds)
            instants.append(min(held.timeout_at, lease_at) if held.phase is Phase.RUNNING else held.kill_at)
        return min(instants)

    def _advance(self, held: Held, now: float, lease_kill_at: float, term_before_seconds: float) -> None:
        if held.phase is Phase.RUNNING and held.root_is_gone:
            self._kill(held, now)  # its root ended by itself: what it left behind has no business any more
        elif held.phase is Phase.RUNNING and now >= held.timeout_at:
            held.timed_out = True
            self._end(held, now, now + held.grace_seconds)
        if now >= lease_kill_at - min(held.grace_seconds, term_before_seconds) and not held.root_is_gone:
            held.stopped = held.stopped or LEASE_OVER
            self._end(held, now, lease_kill_at)
        if held.phase is Phase.ENDING and now >= min(held.kill_at, lease_kill_at):
            self._kill(held, now)

    def _end(self, held: Held, now: float, kill_at: float) -> None:
        held.kill_at = min(held.kill_at, kill_at)
        if held.phase is not Phase.RUNNING:
            return
        if now >= held.kill_at:
            self._kill(held, now)
            return
        held.phase = Phase.ENDING
        held.signals_sent.append("SIGTERM")
        # A stopped process takes TERM only when it continues.
        self._signal(held, self._tree(held), signal.SIGTERM, signal.SIGCONT)

    def _kill(self, held: Held, now: float) -> None:
        if held.phase is Phase.KILLING:
            return
        held.phase = Phase.KILLING
        held.give_up_at = now + _PATIENCE_SECONDS
        if not held.root_is_gone:
            held.signals_sent.append("SIGKILL")
            self._signal(held, [], signal.SIGKILL)

    def _clear(self, now: float) -> list[Held]:
        """Kill what is left of jobs that must end now, and give those of which nothing is left (or will not die)."""
        leaving = [held for held in self._jobs.values() if held.root_is_gone or held.phase is Phase.KILLING]
        if not leaving and (not self._jobs or now < self._survey_at):
            return []
        living_roots = frozenset(held.process.pid for held in self._jobs.values() if not held.root_is_gone)
        if leaving and all(held.root_is_gone for held in leaving) and not self._family.has_orphans(living_roots):
            return leaving
        self._survey_at = now + _SURVEY_SECONDS
        by_job = {held.job: held for held in leaving}
        # Those that may be of a job that goes on are left alone; of the others, each blocks all it may belong to.
        doomed = {process: jobs for process, jobs in self._family.survey().items() if jobs <= by_job.keys()}
        for process, jobs in doomed.items():
            suspects = [by_job[job] for job in jobs]
            # One whose owner is known has the owner's grace period; one that hid its owner has none.
            if len(suspects) != 1 or suspects[0].phase is Phase.KILLING:
                _kill_one(process, suspects)
        return [held for held in leaving if _is_over(held, sum(held.job in jobs for jobs in doomed.values()), now)]

    def _tree(self, held: Held) -> list[Process]:
        return [process for process, jobs in self._family.survey().items() if jobs == {held.job}]

    def _signal(self, held: Held, tree: Sequence[Process], *numbers: signal.Signals) -> None:
        """Signal the job's group, and each process of its tree that left the group; none twice."""
        root = held.process.pid
        for number in numbers:
            if not held.root_is_gone:  # from then on the number of the group may be somebody else's
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(root, number)
            for process in tree:
                if held.root_is_gone or process.group != root:
                    send(process, number)

    def _reap(self) -> None:
        """Collect every dead child: roots of jobs, and orphans that came to us."""
        by_root = {held.process.pid: held for held in self._jobs.values()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if held := by_root.get(pid):
                # Told to the Popen object, so that it never asks for this pid itself.
                held.process.returncode = os.waitstatus_to_exitcode(status)


def _kill_one(process: Process, suspects: Sequence[Held]) -> None:
    for held in suspects[:1]:
        if held.stopped is None and not held.timed_out and process.pid != held.process.pid:
            held.leftovers.add((process.pid, process.started))
    send(process, signal.SIGKILL)


def _is_over(held: Held, left: int, now: float) -> bool:
    """Tell whether nothing is left of a job, or what is left does not die."""
    if left and now >= held.give_up_at:
        held.survivors = left
    return held.survivors > 0 or (held.root_is_gone and left == 0)


def _report(held: Held) -> Exited:
    code = held.process.returncode
    if code is None:
        held.process.returncode = 0  # given up: nobody waits for it any more
    return Exited(
        job=held.job,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        timed_out=held.timed_out,
        stopped=held.stopped,
        signals_sent=tuple(held.signals_sent),
        leftovers=len(held.leftovers),
        survivors=held.survivors,
    )


def _why_not(wanted: Spawn, fault: OSError | ValueError) -> str:
    match fault:
        case OSError() if fault.filename == wanted.cwd:
            return f"the job's private folder {wanted.cwd!r} is gone"
        case FileNotFoundError():
            return f"program {wanted.program!r} does not exist, or the interpreter its first line names does not"
        case PermissionError():
            return f"program {wanted.program!r} may not be executed by this worker's user"
        case OSError():
            return f"program {wanted.program!r} could not be started: {fault.strerror}"
        case _:
            return f"program {wanted.program!r} could not be started: {fault}"
