"""The worker processes of `dev`: started beside it, ended with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.model.lease import Timings

ALLOWED: Final = ("cat", "cut", "date", "echo", "false", "head", "ls", "sleep", "sort", "tail", "true", "wc")
"""Programs that `dev` admits for `command` jobs: the examples use them, and none reaches a network."""
_STOP_WITHIN_SECONDS: Final = 20


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What the nodes of a `dev` have in common."""

    store_url: str
    data: Path
    timings: Timings
    slots: int
    allow: Sequence[str] = ()
    quiet: bool = True

    def start(self, name: str, *, stderr: int | None = None) -> subprocess.Popen[bytes]:
        """Start a worker that ends when this process does."""
        timings = self.timings
        line = ["worker", "--store", self.store_url, "--node-id", name, "--slots", str(self.slots)]
        line += ["--data", str(self.data), "--ends-with", str(os.getpid()), "--started-by", "`reconciler dev`"]
        line += ["--metrics", "127.0.0.1:0"]
        line += ["--lease", f"{timings.lease_seconds:g}s", "--heartbeat", f"{timings.heartbeat_seconds:g}s"]
        for program in (*ALLOWED, *self.allow):
            line += ["--allow", program]
        line += ["--quiet"] if self.quiet else []
        # A session of its own: Ctrl-C reaches this process alone, and the worker is drained in order.
        # What the operator set for real nodes is no concern of this one.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RECONCILER_")}
        return subprocess.Popen(
            [sys.executable, "-m", "reconciler", *line, "--config", os.devnull],
            start_new_session=True,
            env=environment,
            stderr=stderr,
        )


def names_of(number: int) -> list[str]:
    """Name so many nodes."""
    return ["dev"] if number == 1 else [f"dev-{each}" for each in range(1, number + 1)]


def stop(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """End workers in order, all at once; at the latest by force."""
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    for worker in workers:
        try:
            worker.wait(_STOP_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
