"""What does a run cost from end to end, here and in what else people use, side by side on one machine?

    python3 -m venv peers && peers/bin/pip install -r tests/benchmarks/peers.txt
    python -m tests.benchmarks.peers --python peers/bin/python [--runs 5000] [--repeats 3] [--only ours,huey]

Drain: everything is enqueued first, then one worker starts; from the first handler's start until nothing is left.
Latency: one at a time at an idle worker, from the end of the call that enqueues to the handler's start. Handlers do
nothing. What a run includes differs: ours raises a fence, is finished under a lease and keeps history and an attempt;
huey (fsync) deletes; PgQueuer moves a row to a log table; Procrastinate updates a row and writes events.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from sqlalchemy import func, insert, make_url, select

from reconciler.model.run import RunState
from reconciler.store import runs as live
from reconciler.store import schema
from reconciler.store.database import Database
from reconciler.store.tables import attempts, runs
from tests.postgres import PostgresServer
from tests.store.cast import Store, job
from tests.turned import TurnedClock

PEER = Path(__file__).parent / "_peer.py"
LATENCIES = 50
DEADLINE_SECONDS = 300.0


class Product(Protocol):
    """One product over one empty store."""

    def fill(self, number: int) -> None: ...

    def work(self) -> "subprocess.Popen[bytes]": ...

    def left(self) -> int: ...

    def first_start(self) -> float | None: ...

    def one(self) -> tuple[float, Callable[[], float | None]]:
        """Enqueue one; give when that was done, and what tells when its handler started."""


class Ours:
    def __init__(self, store: str, home: Path) -> None:
        self._url = store
        self._home = home
        self._database = Database.open(store)
        schema.upgrade(self._database)
        Store(self._database, TurnedClock()).apply(job("nothing", handler={"type": "noop"}))

    def fill(self, number: int) -> None:
        row = {"definition_id": 1, "generation": 1, "requirement_id": 1, "priority": 5, "created_us": 1}
        made = [
            {**row, "created_by": "bench", "slot_us": at, "order_key": at, "due_us": at, "state": RunState.PENDING}
            for at in range(number)
        ]
        if made:
            self._database.tx(lambda tx: tx.execute(insert(runs), made))

    def work(self) -> "subprocess.Popen[bytes]":
        line = [sys.executable, "-m", "reconciler", "worker", "--store", self._url, "--slots", "200", "--quiet"]
        return subprocess.Popen([*line, "--metrics", "off", "--data", str(self._home / "data")], cwd=self._home)

    def left(self) -> int:
        return int(self._database.read(lambda tx: tx.execute(select(func.count()).select_from(runs)).scalar_one()))

    def first_start(self) -> float | None:
        found = self._database.read(lambda tx: tx.execute(select(func.min(attempts.c.started_us))).scalar_one())
        return None if found is None else found / 1e6

    def one(self) -> tuple[float, Callable[[], float | None]]:
        run_id, _ = self._database.tx(lambda tx: live.create(tx, "nothing", actor="bench"))
        self._database.hint()
        done_at = time.time()
        started = select(attempts.c.started_us).where(attempts.c.run_id == run_id)

        def look() -> float | None:
            found = self._database.read(lambda tx: tx.execute(started).scalar_one_or_none())
            return None if found is None else found / 1e6

        return done_at, look


class Peer:
    def __init__(self, name: str, python: str, store: str, home: Path) -> None:
        self._line = [python, str(PEER), name, store]
        self._home = home
        self._probe = home / "probe"

    def fill(self, number: int) -> None:
        self._ask("fill", str(number))
        self._probe.unlink(missing_ok=True)

    def work(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([*self._line, "work"], env=self._env, cwd=self._home, stdout=subprocess.DEVNULL)

    def left(self) -> int:
        return int(self._ask("left"))

    def first_start(self) -> float | None:
        marks = self._marks()
        return marks[0] if marks else None

    def last_start(self, number: int) -> float | None:
        marks = self._marks()
        return marks[-1] if len(marks) >= number else None

    def one(self) -> tuple[float, Callable[[], float | None]]:
        before = len(self._marks())
        done_at = float(self._ask("one"))

        def look() -> float | None:
            marks = self._marks()
            return marks[-1] if len(marks) > before else None

        return done_at, look

    @property
    def _env(self) -> dict[str, str]:
        return {**os.environ, "PROBE": str(self._probe)}

    def _ask(self, *what: str) -> str:
        return subprocess.run([*self._line, *what], env=self._env, check=True, capture_output=True, text=True).stdout

    def _marks(self) -> list[float]:
        return [float(line) for line in self._probe.read_text().split()] if self._probe.exists() else []


@dataclass
class Figures:
    drains: list[float]
    latencies: list[float]


def drained(product: Product, number: int) -> float:
    """Runs per second, until nothing is left."""
    product.fill(number)
    worker = product.work()
    try:
        until(lambda: product.first_start() is not None)
        if isinstance(product, Peer):  # asking its store takes a process: its handlers tell when the last one began
            until(lambda: product.last_start(number) is not None)
            over_at = product.last_start(number) or time.time()
        else:
            until(lambda: product.left() == 0)
            over_at = time.time()
        return number / (over_at - (product.first_start() or 0.0))
    finally:
        worker.terminate()
        worker.wait(60)


def latencies(product: Product) -> list[float]:
    """Milliseconds from the end of enqueueing to the handler's start, at an idle worker."""
    chance, never, found = random.Random(1), threading.Event(), []
    worker = product.work()
    try:
        product.one()
        never.wait(3.0)
        for _ in range(LATENCIES):
            done_at, look = product.one()
            until(partial(has_started, look))
            found.append(max(0.0, ((look() or done_at) - done_at) * 1000))
            never.wait(chance.uniform(0.05, 0.6))
    finally:
        worker.terminate()
        worker.wait(60)
    return found


def has_started(look: Callable[[], float | None]) -> bool:
    return look() is not None


def until(happened: Callable[[], bool]) -> None:
    give_up_at, never = time.monotonic() + DEADLINE_SECONDS, threading.Event()
    while not happened():
        assert time.monotonic() < give_up_at, "it did not end"
        never.wait(0.005)


def on_postgresql(server: PostgresServer, name: str, python: str, home: Path) -> Product:
    url = make_url(server.create_database()).set(drivername="postgresql")
    return Peer(name, python, url.render_as_string(hide_password=False), home)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="interpreter of the environment with the peers; without it: ours alone")
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="names with commas")
    chosen = parser.parse_args(arguments)
    with PostgresServer.find() as server:
        kinds: dict[str, Callable[[Path], Product]] = {
            "ours-sqlite": lambda home: Ours(f"sqlite:///{home / 'store.db'}", home),
            "ours-postgresql": lambda home: Ours(server.create_database(), home),
        }
        if chosen.python:
            python = str(Path(chosen.python).absolute())
            kinds["huey"] = lambda home: Peer("huey", python, str(home / "huey.db"), home)
            for name in ("procrastinate", "pgqueuer"):
                kinds[name] = partial(on_postgresql, server, name, python)
        wanted = [name for name in kinds if not chosen.only or name.startswith(tuple(chosen.only.split(",")))]
        figures = {name: Figures([], []) for name in wanted}
        for _ in range(chosen.repeats):
            for name in wanted:
                home = Path(tempfile.mkdtemp())
                figures[name].drains.append(drained(kinds[name](home), chosen.runs))
                shutil.rmtree(home)
        for name in wanted:
            home = Path(tempfile.mkdtemp())
            product = kinds[name](home)
            product.fill(0)
            figures[name].latencies = latencies(product)
            shutil.rmtree(home)
    print(f"| product | drain, runs/s (median of {chosen.repeats}, {chosen.runs} runs) | latency ms, p50 / p95 |")
    print("|---|---|---|")
    for name, each in figures.items():
        p50, p95 = statistics.median(each.latencies), statistics.quantiles(each.latencies, n=20)[-1]
        print(f"| {name} | {statistics.median(each.drains):,.0f} | {p50:.1f} / {p95:.1f} |")


if __name__ == "__main__":
    main()
