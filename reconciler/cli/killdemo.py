"""`reconciler dev --kill-demo`: a worker stalls in the middle of a run, and what keeps its late result out.

Nothing here is told that was not seen: each line comes from the store, or from what the stalled worker itself logs. A
step that does not come in time ends the demonstration with an error.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from reconciler.cli import devnodes
from reconciler.cli.devnodes import NodePlan
from reconciler.cli.stores import actor, open_store
from reconciler.cli.wiring import LeaderProcess
from reconciler.clock import SystemClock
from reconciler.errors import StoreUnavailableError
from reconciler.model.lease import Timings
from reconciler.model.run import RunState
from reconciler.reconcile.apply import Source
from reconciler.store import definitions, nodes, queries, runs
from reconciler.store.database import Database
from reconciler.store.queries import RunRow
from reconciler.worker import kin

_TIMINGS: Final = Timings(lease_seconds=4, heartbeat_seconds=1, leader_ttl_seconds=3, rescan_seconds=2)
_NODES: Final = ("dev-1", "dev-2")
_JOB: Final = "stocktake"
_DEFINITION: Final = f"""\
apiVersion: reconciler/v1
kind: Job
metadata:
  name: {_JOB}
spec:
  handler: {{type: slow, with: {{duration: 3s, steps: 3}}}}
  timeout: 1m
"""
_PATIENCE_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1


def play() -> int:
    """Play it in a folder of its own that is removed afterwards. Raises StoreUnavailableError when a step fails."""
    with tempfile.TemporaryDirectory(prefix="reconciler-demo-") as folder:
        home = Path(folder)
        (home / "jobs.d").mkdir()
        (home / "jobs.d" / "stocktake.yaml").write_text(_DEFINITION, encoding="utf-8")
        url = f"sqlite:///{home / 'store.db'}"
        database = open_store(url, create=True)
        leader = LeaderProcess(database, [Source("default", home / "jobs.d", moved=True)], timings=_TIMINGS)
        plan = NodePlan(url, home / "data", _TIMINGS, slots=1)
        workers = {name: plan.start(name, stderr=subprocess.PIPE) for name in _NODES}
        leader.start()
        try:
            _Demo(database, workers).play()
        finally:
            leader.stop()
            for worker in workers.values():
                _signal(worker, signal.SIGCONT)
            devnodes.stop(list(workers.values()))
            database.close()
    click.echo(
        "\ntry next:\n  reconciler dev                     your own definitions, and examples\n"
        "  reconciler dev --nodes 3           three workers over them"
    )
    return 0


class _Demo:
    """The steps, each with what it waits for."""

    def __init__(self, database: Database, workers: dict[str, subprocess.Popen[bytes]]) -> None:
        self._database = database
        self._workers = workers
        self._clock = SystemClock()
        self._began_at = self._clock.elapsed()
        self._refused: list[dict[str, Any]] = []
        for worker in workers.values():
            threading.Thread(target=self._read, args=(worker,), daemon=True).start()

    def play(self) -> None:
        """Tell each step as it is seen."""
        lease = _TIMINGS.lease_seconds
        self._until("two workers registered", lambda: len(self._living()) == len(_NODES))
        self._until("the job was loaded", lambda: self._database.read(definitions.count))
        run_id, _ = self._database.tx(lambda tx: runs.create(tx, _JOB, actor=actor()))
        self._database.hint()
        first = self._until("a worker claimed the run", lambda: self._held(run_id, fence=1))
        stalled = str(first.node)
        self._say(
            f"{stalled} claims run {run_id} with fence {first.fence}; its lease of {lease:g} s is renewed every second"
        )

        _signal(self._workers[stalled], signal.SIGSTOP)
        self._say(f"{stalled} stalls: worker and guard stand still (SIGSTOP), as in a frozen machine. Its job goes on")
        self._until("the lease ran out", lambda: self._shown(run_id).lost_leases == 1)
        self._say(f"the lease has run out: the leader takes run {run_id} back, to be claimed by others")
        second = self._until("another worker claimed the run", lambda: self._held(run_id, fence=2))
        self._say(f"{second.node} claims run {run_id} with fence {second.fence}")

        _signal(self._workers[stalled], signal.SIGCONT)
        self._say(f"{stalled} wakes up and writes what became of its run, with fence {first.fence}")
        refused = self._until("the late write was refused", lambda: next(iter(self._refused), None))
        self._say(
            f"refused ({refused['operation']} under fence {refused['fence']}): the run's fence is {second.fence} now"
        )
        self._until("the run ended", lambda: self._shown(run_id).is_over)
        self._tell_end(run_id)

    def _tell_end(self, run_id: int) -> None:
        run = self._shown(run_id)
        self._say(f"run {run_id} is {run.state}: one result was accepted")
        for each in self._database.read(lambda tx: queries.attempts_of(tx, run_id)):
            click.echo(f"         attempt {each.attempt} (fence {each.fence}) on {each.node}: {each.outcome}")
        if run.state is not RunState.SUCCEEDED:
            raise StoreUnavailableError(f"run {run_id} should have succeeded and is {run.state}")

    def _living(self) -> list[str]:
        found = self._database.read(lambda tx: nodes.listed(tx, limit=10))
        return [each.name for each in found if each.alive]

    def _shown(self, run_id: int) -> RunRow:
        return self._database.read(lambda tx: queries.run_shown(tx, run_id))

    def _held(self, run_id: int, *, fence: int) -> RunRow | None:
        run = self._shown(run_id)
        return run if run.fence == fence and run.node is not None and run.state is RunState.RUNNING else None

    def _read(self, worker: subprocess.Popen[bytes]) -> None:
        """Read what a worker logs; keep what it says of refused writes."""
        assert worker.stderr is not None  # noqa: S101 - it was started with a pipe
        for line in worker.stderr:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if told.get("event") == "fenced_out" and told.get("operation") != "log":
                self._refused.append(told)

    def _until(self, what: str, look: Callable[[], Any]) -> Any:
        give_up_at, never = self._clock.elapsed() + _PATIENCE_SECONDS, threading.Event()
        while not (found := look()):
            if self._clock.elapsed() > give_up_at:
                raise StoreUnavailableError(f"the demonstration waited {_PATIENCE_SECONDS:g} s in vain until {what}")
            self._clock.wait(never, _LOOK_SECONDS)
        return found

    def _say(self, text: str) -> None:
        click.echo(f"{self._clock.elapsed() - self._began_at:6.1f} s {text}")


def _signal(worker: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the worker and its guard, not the job below them."""
    if worker.poll() is None:
        for pid in (*kin.children(worker.pid), worker.pid):
            os.kill(pid, number)
