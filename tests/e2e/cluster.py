"""A whole installation of real processes: `reconciler serve` and `reconciler worker` over one store and one folder."""

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml
from sqlalchemy.engine import make_url

from reconciler.store import definitions, nodes, queries, runs, schema
from reconciler.store.database import Database
from tests.worker.waiting import until

LEASE_SECONDS = 4.0
TTL_SECONDS = 3.0
MARK = "NORTHSTAR_TEST_MARK"
UNWATCHED = {f"RECONCILER_{name}": "off" for name in ("METRICS_SERVE", "METRICS_WORKER", "API_LISTEN")}
"""Many processes on one machine would want the same ports; a test that looks gives them others by flags."""


@dataclass
class Cluster:
    """Starts processes, looks into their store, and leaves nothing behind."""

    url: str
    home: Path
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.jobs.mkdir()
        self.database = Database.open(self.url)
        schema.upgrade(self.database)

    @property
    def jobs(self) -> Path:
        return self.home / "jobs.d"

    def job(self, name: str, **spec: Any) -> None:
        """Commit a job; a file appears whole, as git and editors make it."""
        document = {"apiVersion": "reconciler/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        draft = self.jobs / f".{name}.new"
        draft.write_text(yaml.safe_dump(document))
        draft.rename(self.jobs / f"{name}.yaml")

    def script(self, name: str, text: str, **spec: Any) -> None:
        """Commit a job that runs a shell script; its processes carry this cluster's mark."""
        argv = ["sh", "-c", text]
        env = [{"name": MARK, "value": str(self.home)}]
        self.job(name, handler={"type": "command", "with": {"argv": argv, "env": env}}, **spec)

    def serve(self, name: str = "leader", *options: str) -> "subprocess.Popen[bytes]":
        return self.start(
            name, "serve", str(self.jobs), "--leader-ttl", f"{TTL_SECONDS}s", "--rescan", "0.5s", *options
        )

    def worker(self, name: str, *options: str, lease: float = LEASE_SECONDS) -> "subprocess.Popen[bytes]":
        own = ["--node-id", name, "--lease", f"{lease}s", "--heartbeat", f"{lease / 4}s", "--allow", "*"]
        process = self.start(name, "worker", *own, "--data", str(self.home / "data"), *options)
        until(lambda: self.session_of(name, process.pid), seconds=20)
        return process

    def start(self, name: str, command: str, *arguments: str) -> "subprocess.Popen[bytes]":
        log = (self.home / f"{name}.log").open("ab")
        process = subprocess.Popen(
            [sys.executable, "-m", "reconciler", command, *arguments, "--store", self.url],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **UNWATCHED, MARK: str(self.home)},
            cwd=self.home,
            start_new_session=True,
        )
        log.close()
        self.processes[name] = process
        return process

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    def loaded(self, *names: str) -> None:
        """Wait until the leader has applied these jobs."""
        until(lambda: set(names) <= {each.name for each in self.definitions()}, seconds=20)

    def definitions(self) -> Sequence[definitions.StoredDefinition]:
        return self.database.read(lambda tx: definitions.listed(tx, limit=1000))

    def trigger(self, name: str) -> int:
        return self.database.tx(lambda tx: runs.create(tx, name, actor="tests"))[0]

    def run(self, run_id: int) -> queries.RunRow:
        return self.database.read(lambda tx: queries.run_shown(tx, run_id))

    def attempts(self, run_id: int) -> Sequence[queries.AttemptRow]:
        return self.database.read(lambda tx: queries.attempts_of(tx, run_id))

    def runs(self, **options: Any) -> Sequence[queries.RunRow]:
        return self.database.read(lambda tx: queries.runs_listed(tx, limit=10_000, **options))

    def session_of(self, name: str, pid: int) -> bool:
        """Whether a worker process has an open session."""
        listed = self.database.read(lambda tx: nodes.listed(tx, limit=1000))
        return any(each.name == name and each.pid == pid and each.alive for each in listed)

    def wait(self, happened: Callable[[], object], *, seconds: float) -> float:
        return until(happened, seconds=seconds)

    def ended(self, run_id: int, *, seconds: float) -> queries.RunRow:
        """Wait for a run's end."""
        until(lambda: self.run(run_id).is_over, seconds=seconds)
        return self.run(run_id)

    def job_processes(self) -> list[int]:
        """Every living process of a job of this cluster, found by what its environment says."""
        return marked(f"{MARK}={self.home}", "RECONCILER_CLAIM=")

    def halt(self, *pids: int) -> None:
        """Stop processes in their tracks, though not one that holds up every writer of an SQLite file.

        That is a trap of its own, with a test of its own (tests/store/test_traps_sqlite.py).
        """
        while True:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            if self._can_be_written():
                return
            self.resume(*pids)

    def resume(self, *pids: int) -> None:
        """Let processes that were stopped go on."""
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def _can_be_written(self) -> bool:
        url = make_url(self.url)
        if url.get_backend_name() != "sqlite":
            return True
        with closing(sqlite3.connect(str(url.database), timeout=2.0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
        with Path(f"{url.database}-turn").open("ab") as turnstile:
            try:
                fcntl.flock(turnstile, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.database.close()
        left = marked(f"{MARK}={self.home}")
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"processes were left behind: {left}"


def marked(*marks: str) -> list[int]:
    """The living processes whose environment holds all these texts."""
    found = []
    for pid in psutil.pids():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            alive = psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except (OSError, psutil.Error):
            continue
        if alive and all(mark.encode() in environment for mark in marks):
            found.append(pid)
    return found


def guard_of(worker: "subprocess.Popen[bytes]") -> psutil.Process:
    """The guard process of a worker."""
    (guard,) = (each for each in psutil.Process(worker.pid).children() if "reconciler.worker.guard" in each.cmdline())
    return guard
