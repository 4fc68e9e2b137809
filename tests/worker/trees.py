"""Job trees for tests, and a way to count what is left of them that trusts nothing of the product."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass

import psutil

TREE = """
sleep 300 &                                      # child
sh -c 'sleep 300 & wait' &                       # grandchild
setsid sleep 300 &                               # child in a session of its own
(setsid sh -c 'sleep 300 & exec sleep 300' &)    # double fork: its parent is gone at once
wait
"""
TREE_SIZE = 7
"""The shell, and what the lines above start."""
_LINGER = "while :; do /bin/sleep 1; done"
HIDDEN = f"""
env -i setsid /bin/sh -c '{_LINGER}' {{mark}} &
(env -i setsid /bin/sh -c '{_LINGER}' {{mark}} &)
"""
"""Two processes that have left group, session and environment, one of them by a double fork as well."""
HIDDEN_SIZE = 2


@dataclass(frozen=True)
class Marked:
    """Every process that carries one mark, in its environment or its command line."""

    mark: str

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_on(process)]

    def count(self) -> int:
        return len(self.processes())

    def kill(self) -> int:
        """Clear up after a test; give how many were left."""
        left = self.processes()
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        return len(left)

    def _is_on(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                return False
            return self.mark in process.environ().values() or any(self.mark in part for part in process.cmdline())
        return False
