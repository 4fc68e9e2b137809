"""The handlers a worker has, and how each of them runs.

`command` starts a program the worker admits. The demo handlers are ours: real work on real files of the node's data
folder, each in a process of its own, with its payload on standard input. `noop` does nothing, inside the worker: what
such a run takes is what everything around a run takes.
"""

# Imported by every one of these processes: keep it light.
from __future__ import annotations

import sys
from typing import Final

COMMAND: Final = "command"
DEMO: Final = ("cleanup", "csv-transform", "flaky", "report-generator", "slow")
IN_PROCESS: Final = frozenset({"noop"})
NAMES: Final = (COMMAND, *DEMO, *sorted(IN_PROCESS))


def child_argv(handler: str) -> list[str]:
    """Give the command line that runs a demo handler; isolated from the environment and the current folder."""
    return [sys.executable, "-I", "-m", "reconciler.worker.handlers", handler]
