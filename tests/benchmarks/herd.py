"""How late are runs when very many triggers are due in the same second?

    python3 -m venv peers && peers/bin/pip install -r tests/benchmarks/peers.txt
    python -m tests.benchmarks.herd [--triggers 10000,100000] [--python peers/bin/python] [--peer-triggers 10000]

So many jobs with a cron of one second a day. A leader's own duty makes and promotes their runs, which a real worker
process executes (a handler that does nothing, as the peer's). Lag is from the slot to the commit that made the run
claimable, and to the handler's start. The peer, APScheduler 3 with its SQLAlchemy store and no misfire grace, has its
jobs due at one second too; ratios are of p99 to its p99 with `--peer-triggers`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import func, make_url, select

from reconciler.clock import SECOND_US, SystemClock, from_us
from reconciler.engine.clockwatch import ClockWatch
from reconciler.engine.materialise import Materialise, RunsAwoken
from reconciler.model.lease import Timings
from reconciler.model.policy import DEFAULT_MISFIRE
from reconciler.store import leader, schema
from reconciler.store.database import Database
from reconciler.store.slots import Bounds
from reconciler.store.tables import attempts, run_history, runs
from reconciler.telemetry import Event, subscribe
from tests.postgres import PostgresServer
from tests.store.cast import Store, job

_PEER: Final = Path(__file__).parent / "_aps3.py"
_AHEAD_SECONDS: Final = 20
_SLOTS: Final = 1000
_DEADLINE_SECONDS: Final = 900.0

_WITH_PEER: Final = {**os.environ, "PYTHONPATH": str(_PEER.parent)}
"""So that its jobs find their function by name."""

Lags = dict[str, list[float]]


def measure(url: str, number: int, home: Path) -> Lags:
    """Milliseconds from the slot until runs were claimable, and until their handlers started."""
    clock = SystemClock()
    database = Database.open(url)
    schema.upgrade(database)
    store = Store(database, cast("Any", clock))  # real time is what this is about
    slot_us = (clock.now_us() // SECOND_US + _AHEAD_SECONDS + number // 500) * SECOND_US
    cron = from_us(slot_us).strftime("%S %M %H * * *")
    store.apply(*(job(f"job-{each}", handler={"type": "noop"}, triggers=[{"cron": cron}]) for each in range(number)))
    assert clock.now_us() < slot_us - 6 * SECOND_US, "applying the jobs took longer than was planned for"
    claimable: list[float] = []

    def hear(event: Event) -> None:
        if isinstance(event, RunsAwoken):
            claimable.extend([(clock.now_us() - slot_us) / 1000] * event.due)

    term = database.tx(lambda tx: leader.acquire(tx, "herd", ttl_us=3600 * SECOND_US)) or store.term
    duty = Materialise(database, Bounds.of(Timings(), DEFAULT_MISFIRE), watch=ClockWatch(clock))

    def lead() -> None:
        never = threading.Event()
        while not is_over.is_set():
            clock.wait(never, duty.step(term))

    is_over = threading.Event()
    stop = subscribe(hear)
    thread = threading.Thread(target=lead)
    thread.start()
    line = [sys.executable, "-m", "reconciler", "worker", "--store", url, "--slots", str(_SLOTS), "--quiet"]
    worker = subprocess.Popen([*line, "--metrics", "off", "--data", str(home / "data")], cwd=home)
    until(lambda: clock.now_us() > slot_us and _left(database) == 0)
    is_over.set()
    thread.join()
    stop()
    made_late = select(run_history.c.created_us).where(run_history.c.created_us > run_history.c.due_us)
    late = database.read(lambda tx: tx.execute(made_late).scalars().all())
    claimable += [(at - slot_us) / 1000 for at in late]  # made after their instant, they were claimable at once
    started = database.read(lambda tx: tx.execute(select(attempts.c.started_us)).scalars().all())
    worker.terminate()
    worker.wait(60)
    database.close()
    assert len(started) == len(claimable) == number
    return {"claimable": claimable, "handler": [(at - slot_us) / 1000 for at in started if at is not None]}


def _left(database: Database) -> int:
    return int(database.read(lambda tx: tx.execute(select(func.count()).select_from(runs)).scalar_one()))


def until(happened: Callable[[], bool]) -> None:
    give_up_at, never = time.monotonic() + _DEADLINE_SECONDS, threading.Event()
    while not happened():
        assert time.monotonic() < give_up_at, "it did not end"
        never.wait(0.1)


def peer(python: str, url: str, number: int) -> list[float]:
    """Milliseconds from the due instant to each job's start, in APScheduler 3."""
    line = [python, str(_PEER), url, str(number)]
    told = subprocess.run(
        line, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(_PEER.parent)}
    )
    return [float(each) for each in told.stdout.split()]


def p99(lags: Sequence[float]) -> float:
    return statistics.quantiles(lags, n=100)[-1]


def row(what: str, lags: Sequence[float], base: float | None) -> str:
    ratio = "" if base is None else f"{p99(lags) / base:.3f}"
    return f"| {what} | {statistics.median(lags):,.0f} | {p99(lags):,.0f} | {max(lags):,.0f} | {ratio} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", default="10000", help="numbers with commas")
    parser.add_argument("--python", help="interpreter of the environment with the peer; without it: ours alone")
    parser.add_argument("--peer-triggers", type=int, default=10_000)
    chosen = parser.parse_args(arguments)
    print("| store | triggers | from the slot until | p50 ms | p99 ms | last ms | of the peer's p99 |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder, PostgresServer.find() as server:
        home, base = Path(folder), None
        if chosen.python:
            url = make_url(server.create_database()).set(drivername="postgresql+psycopg")
            lags = peer(chosen.python, url.render_as_string(hide_password=False), chosen.peer_triggers)
            base = p99(lags)
            print(row(f"APScheduler 3, PostgreSQL | {len(lags):,} | handler", lags, base), flush=True)
        for number in map(int, chosen.triggers.split(",")):
            urls = {"SQLite": f"sqlite:///{home / f'{number}.db'}", "PostgreSQL": server.create_database()}
            for name, url_ in urls.items():
                for what, lags in measure(url_, number, home).items():
                    print(row(f"{name} | {number:,} | {what}", lags, base), flush=True)


if __name__ == "__main__":
    main()
