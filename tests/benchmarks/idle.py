"""What do very many triggers cost while none of them is due, and how soon does the first slot fire after a start?

    python -m tests.benchmarks.idle [--triggers 100000] [--seconds 60]

A store with so many cron triggers that are far off, and one slot that is due a second after the start. A leader process
with all its duties starts over it: processor time and memory are those of the process.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import psutil
from sqlalchemy import select

from reconciler.cli.wiring import LeaderProcess
from reconciler.clock import SECOND_US, SystemClock, from_us
from reconciler.model.lease import Timings
from reconciler.model.run import RunState
from reconciler.reconcile.apply import Source
from reconciler.store import leader, schema
from reconciler.store.database import Database
from reconciler.store.tables import runs
from tests.postgres import PostgresServer
from tests.store.cast import Store, job

_AT_ONCE = 5000


def filled(url: str, number: int) -> Store:
    """Declare the jobs, as an apply does."""
    database = Database.open(url)
    schema.upgrade(database)
    store = Store(database, cast("Any", SystemClock()))
    for first in range(0, number, _AT_ONCE):
        store.apply(
            *(
                job(
                    f"job-{each}",
                    triggers=[{"cron": f"{each % 60} {each // 60 % 24} 29 2 *", "timeZone": "Europe/Berlin"}],
                )
                for each in range(first, min(first + _AT_ONCE, number))
            )
        )
    return store


def lead(url: str) -> None:
    """Be the leader, until killed."""
    with tempfile.TemporaryDirectory() as nothing:
        source = Source("empty", Path(nothing))  # it owns nothing, so it prunes nothing
        LeaderProcess(Database.open(url), [source], timings=Timings()).start()
        threading.Event().wait()


def measure(store: Store, url: str, seconds: float) -> tuple[float, float, float]:
    """Give the share of one core, the memory in MB, and the seconds from the start until a run was claimable."""
    database = store.database
    at = from_us(SystemClock().now_us() + SECOND_US).isoformat()
    store.apply(job("soon", triggers=[{"at": at}]))
    database.tx(lambda tx: leader.release(tx, store.term))
    began_at = time.monotonic()
    child = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.idle", "--lead", url])
    try:
        claimable = select(runs.c.id).where(runs.c.state == RunState.PENDING)
        while database.read(lambda tx: tx.execute(claimable).first()) is None and time.monotonic() < began_at + 60:
            threading.Event().wait(0.02)
        first = time.monotonic() - began_at
        threading.Event().wait(5)
        watched = psutil.Process(child.pid)
        before = sum(watched.cpu_times()[:2])
        threading.Event().wait(seconds)
        share = (sum(watched.cpu_times()[:2]) - before) / seconds
        return share, watched.memory_info().rss / 1e6, first
    finally:
        child.kill()
        child.wait()
        database.close()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--lead", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.lead:
        lead(chosen.lead)
        return
    print("| store | triggers | of one core | memory, MB | first slot after start, s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, PostgresServer.find() as server:
        for name, url in {
            "SQLite": f"sqlite:///{Path(folder) / 'store.db'}",
            "PostgreSQL": server.create_database(),
        }.items():
            share, memory, first = measure(filled(url, chosen.triggers), url, chosen.seconds)
            print(f"| {name} | {chosen.triggers:,} | {share:.1%} | {memory:.0f} | {first:.1f} |", flush=True)


if __name__ == "__main__":
    main()
