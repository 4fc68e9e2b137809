"""The worker's side of its guard: start it, talk to it, and clear up after it if it dies.

The worker is a subreaper as well: when the guard dies, its orphans come to the worker, which ends them. Whoever owns a
`GuardProcess` with `adopts_orphans` therefore starts no other processes of its own while a guard lives.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Final

from reconciler.clock import Clock
from reconciler.worker.kin import become_subreaper, children, kill_everything_below
from reconciler.worker.wire import Alive, Channel, Leave, Setup, ToGuard, ToWorker

GUARD_COMMAND: Final = (sys.executable, "-P", "-m", "reconciler.worker.guard")
_LOOK_AGAIN_SECONDS: Final = 0.01
_PATIENCE_SECONDS: Final = 5.0
"""How long clearing up may take; a process that KILL does not end in this time is left to the kernel."""
_ALIVE_SECONDS: Final = 0.1


class GuardProcess:
    """A running guard."""

    def __init__(
        self, process: subprocess.Popen[bytes], channel: Channel, clock: Clock, *, adopts_orphans: bool
    ) -> None:
        self._process = process
        self._channel = channel
        self._clock = clock
        self._adopts_orphans = adopts_orphans
        self._alive_at = 0.0

    @classmethod
    def start(
        cls, setup: Setup, *, clock: Clock, command: Sequence[str] = GUARD_COMMAND, adopts_orphans: bool = False
    ) -> GuardProcess:
        """Start a guard. `adopts_orphans` turns this whole process into a subreaper (see above)."""
        if adopts_orphans:
            become_subreaper()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        guard = cls(process, Channel(ours), clock, adopts_orphans=adopts_orphans)
        guard.say(setup)
        return guard

    @property
    def pid(self) -> int:
        """The guard's process id."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """Whether the guard hung up."""
        return not self._channel.is_open

    @property
    def is_behind(self) -> bool:
        """Whether messages wait because the guard has not read the earlier ones."""
        return self._channel.unsent > 0

    def fileno(self) -> int:
        """Give the descriptor to wait on for messages of the guard."""
        return self._channel.fileno()

    def say(self, message: ToGuard, descriptors: Sequence[int] = ()) -> None:
        """Tell the guard something; the descriptors are given away."""
        self._channel.send(message, descriptors)

    def say_alive(self) -> None:
        """Tell the guard that our loop turns, but not more often than it needs to know."""
        self._channel.flush()
        now = self._clock.elapsed()
        if now >= self._alive_at + _ALIVE_SECONDS:
            self._alive_at = now
            self.say(Alive())

    def hear(self) -> list[ToWorker]:
        """Give what the guard has said since."""
        return [each.message for each in self._channel.receive() if isinstance(each.message, ToWorker)]

    def leave(self) -> None:
        """End the guard in order, when the session has been ended and no job matters any more."""
        self.say(Leave())
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_SECONDS)
        self.bury()

    def bury(self) -> bool:
        """End the guard by force, and then everything it leaves behind; True when nothing of that is left."""
        self._process.kill()
        # Its children become ours before it can be waited for, not before its socket closes.
        self._process.wait()
        self._channel.close()
        return not self._adopts_orphans or end_orphans(self._clock)


def end_orphans(clock: Clock) -> bool:
    """Kill everything below this process until nothing is left; True when that is so."""
    never = threading.Event()
    me = os.getpid()
    give_up_at = clock.elapsed() + _PATIENCE_SECONDS
    while clock.elapsed() < give_up_at:
        left = kill_everything_below(me)
        for pid in children(me):
            with contextlib.suppress(ChildProcessError):
                left += os.waitpid(pid, os.WNOHANG)[0] != 0
        if not left:
            return True
        clock.wait(never, _LOOK_AGAIN_SECONDS)
    return False
