"""How late are runs when very many triggers are due in the same second?

    python -m tests.benchmarks.herd [--triggers 10000]

So many jobs of one instant; a leader's own duty makes and promotes their runs, and one node claims them in batches of
1,000 as soon as a hint says so. Lag is from the slot to the commit that made the run claimable, and to its claim.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from reconciler.clock import SECOND_US, SystemClock, from_us
from reconciler.engine.clockwatch import ClockWatch
from reconciler.engine.materialise import Materialise, RunsAwoken
from reconciler.model.lease import Timings
from reconciler.model.policy import DEFAULT_MISFIRE
from reconciler.store import claiming, leader, nodes, schema
from reconciler.store.database import Database
from reconciler.store.slots import Bounds
from reconciler.telemetry import Event, subscribe
from tests.postgres import PostgresServer
from tests.store.cast import Store, job

_AHEAD_SECONDS = 20


def measure(url: str, number: int) -> None:
    clock = SystemClock()
    database = Database.open(url)
    schema.upgrade(database)
    store = Store(database, cast("Any", clock))  # real time is what this is about
    slot_us = (clock.now_us() // SECOND_US + _AHEAD_SECONDS + number // 1000) * SECOND_US
    at = from_us(slot_us).isoformat()
    store.apply(*(job(f"job-{each}", triggers=[{"at": at}]) for each in range(number)))
    term = database.tx(lambda tx: leader.acquire(tx, "herd", ttl_us=3600 * SECOND_US)) or store.term
    claimable: list[float] = []
    claimed: list[float] = []

    def hear(event: Event) -> None:
        if isinstance(event, RunsAwoken):
            claimable.extend([(clock.now_us() - slot_us) / 1000] * event.due)

    def lead() -> None:
        bounds, stop = Bounds.of(Timings(), DEFAULT_MISFIRE), threading.Event()
        duty = Materialise(database, bounds, watch=ClockWatch(SystemClock()))
        while len(claimable) < number:
            clock.wait(stop, duty.step(term))

    session = database.tx(
        lambda tx: nodes.register(
            tx,
            "n1",
            host="here",
            pid=1,
            secret="bench",
            queues=None,
            handlers=["slow"],
            tags=(),
            slots=number,
            lease_us=3600 * SECOND_US,
        )
    )
    stop = subscribe(hear)
    thread = threading.Thread(target=lead)
    thread.start()
    hints = database.hints()
    deadline = time.monotonic() + 600
    while len(claimed) < number and time.monotonic() < deadline:
        won = database.tx(lambda tx: claiming.claim(tx, session, limit=1000, handlers=["slow"], queues=None))
        claimed.extend([(clock.now_us() - slot_us) / 1000] * len(won))
        if not won:
            hints.wait(0.5)
    thread.join()
    stop()
    hints.close()
    kind = "SQLite" if database.is_sqlite else "PostgreSQL"
    for name, lags in (("claimable", claimable), ("claimed", claimed)):
        p99 = statistics.quantiles(lags, n=100)[-1]
        print(f"| {kind} | {number:,} | {name} | {statistics.median(lags):,.0f} | {p99:,.0f} | {max(lags):,.0f} |")
    database.close()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", type=int, default=10_000)
    number = parser.parse_args(arguments).triggers
    print("| store | triggers | from the slot until | p50 ms | p99 ms | last ms |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        measure(f"sqlite:///{Path(folder) / 'store.db'}", number)
    with PostgresServer.find() as server:
        measure(server.create_database(), number)


if __name__ == "__main__":
    main()
