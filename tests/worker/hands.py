"""A guard in the hands of a test: start jobs, hear what becomes of them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from reconciler.clock import SystemClock
from reconciler.model.lease import Session
from reconciler.worker.process import GuardProcess
from reconciler.worker.wire import CLAIM_MARKER, Adopt, Exited, Setup, Spawn, SpawnFailed, ToWorker
from tests.worker.trees import Marked
from tests.worker.waiting import until

BARE_GUARD = (sys.executable, str(Path(__file__).with_name("bare_guard.py")))
EPOCH = 5
Said = TypeVar("Said", bound=ToWorker)


@dataclass
class Hands:
    """The worker's side of a guard, turned by the test."""

    guard: GuardProcess
    folder: Path
    marked: Marked
    clock: SystemClock = field(default_factory=SystemClock)
    heard: list[tuple[float, ToWorker]] = field(default_factory=list)

    def adopt(self, epoch: int = EPOCH) -> float:
        """Give the guard a session; give when its lease began."""
        asked_at = self.clock.elapsed()
        self.guard.say(Adopt(Session(1, epoch, "n1", "secret"), asked_at))
        return asked_at

    def spawn(self, job: str, *argv: str, timeout: float = 60.0, grace: float = 1.0, output: int | None = None) -> None:
        """Start a job under the current session; its output goes to `output`, or nowhere."""
        descriptor = os.open(os.devnull, os.O_WRONLY) if output is None else output
        program = argv[0] if argv[0].startswith("/") else f"/bin/{argv[0]}"
        env = {"PATH": "/usr/bin:/bin", CLAIM_MARKER: job, "TEST_MARK": self.marked.mark}
        wanted = Spawn(job, EPOCH, program, argv, env, str(self.folder), timeout, grace)
        self.guard.say(wanted, [descriptor, os.dup(descriptor)])

    def sh(self, job: str, script: str, *, timeout: float = 60.0, grace: float = 1.0) -> None:
        self.spawn(job, "sh", "-c", script, timeout=timeout, grace=grace)

    def turn(self, *, alive: bool = True) -> None:
        if alive:
            self.guard.say_alive()
        self.heard += [(self.clock.elapsed(), message) for message in self.guard.hear()]

    def said(self, kind: type[Said], *, job: str | None = None) -> tuple[float, Said] | None:
        """The first message of a kind, and when it came."""
        for at, message in self.heard:
            if isinstance(message, kind) and (job is None or getattr(message, "job", None) == job):
                return at, message
        return None

    def hear(self, kind: type[Said], *, job: str | None = None, seconds: float = 10.0, alive: bool = True) -> Said:
        """Wait for the first message of a kind."""

        def came() -> bool:
            self.turn(alive=alive)
            return self.said(kind, job=job) is not None

        until(came, seconds=seconds)
        found = self.said(kind, job=job)
        assert found
        return found[1]

    def over(self, job: str, *, seconds: float = 10.0, alive: bool = True) -> Exited:
        """Wait until a job is over."""
        assert self.said(SpawnFailed, job=job) is None
        return self.hear(Exited, job=job, seconds=seconds, alive=alive)

    def log(self) -> list[str]:
        """What the guard did to its session."""
        with suppress(FileNotFoundError):
            return (self.folder / "log").read_text().splitlines()
        return []


@contextmanager
def guarded(folder: Path, *, lease: float = 6.0, heartbeat: float = 2.0, margin: float = 1.0) -> Iterator[Hands]:
    """A guard without a store, with a session; afterwards nothing of its jobs may be left."""
    scratch = folder / "scratch"
    scratch.mkdir()
    setup = Setup(str(folder), lease, heartbeat, margin, str(scratch))
    guard = GuardProcess.start(setup, clock=SystemClock(), command=BARE_GUARD)
    hands = Hands(guard, folder, Marked(f"mark-{folder}"))
    hands.adopt()
    try:
        yield hands
        if not guard.is_gone:
            guard.leave()
        left = hands.marked.count()
    finally:
        guard.bury()
        hands.marked.kill()
    assert left == 0
