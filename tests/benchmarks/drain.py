"""How fast are runs drained, against the bare loop with the raw driver on the same tables, indexes and rows?

    python -m tests.benchmarks.drain [--store postgresql|sqlite] [--runs 20000] [--repeats 3] [--cap 1000]

One node claims and finishes in batches, one transaction each, default durability; the handler does nothing. Both loops
raise fence and attempt, prove the session, write history and one attempt per run, and delete the live row. Ours goes
through `Database.tx`, `claiming.claim` and `claims.finish`; the bare loop sends prepared text (psycopg, sqlite3) with
values as arrays or JSON, and looks at nothing it gets back. The two alternate; medians, and the ratio ours / bare.
With --cap our runs wait in a queue that has so many places; the bare loop knows no caps.
"""

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
from sqlalchemy import delete, insert

from reconciler.model.lease import Session
from reconciler.model.run import AttemptOutcome, Outcome, RunState
from reconciler.store import claiming, claims, nodes, schema
from reconciler.store.database import Database, Tx
from reconciler.store.tables import attempts, run_history, runs
from tests.postgres import PostgresServer, conninfo_of
from tests.store.cast import Store, job, queue
from tests.turned import TurnedClock

BATCHES = (1, 10, 100, 1000)
LEASE_US = 3_600_000_000
KEPT = (
    "definition_id, generation, trigger_id, slot_us, requirement_id, priority, due_us, fence, attempt, lost_leases, "
    "node_id, created_us, created_by, started_us"
)


def prepare(url: str, cap: int | None = None) -> tuple[Database, Session]:
    database = Database.open(url)
    schema.upgrade(database)
    capped = [] if cap is None else [queue("default", max=cap)]
    Store(database, TurnedClock()).apply(job("nothing"), *capped)

    def join(tx: Tx) -> Session:
        return nodes.register(
            tx,
            "node",
            host="here",
            pid=1,
            secret="bench",
            queues=None,
            handlers=["slow"],
            tags=(),
            slots=1000,
            lease_us=LEASE_US,
        )

    return database, database.tx(join)


def fill(database: Database, number: int) -> None:
    """Empty the three tables and make runs that are claimable."""
    row = {
        "definition_id": 1,
        "generation": 1,
        "requirement_id": 1,
        "priority": 5,
        "created_us": 1,
        "created_by": "bench",
    }

    def refill(tx: Tx) -> None:
        for table in (attempts, run_history, runs):
            tx.execute(delete(table))
        rows = [
            {**row, "slot_us": at, "order_key": at, "due_us": at, "state": RunState.PENDING} for at in range(number)
        ]
        tx.execute(insert(runs), rows)

    database.tx(refill)


def ours(database: Database, session: Session, batch: int) -> Callable[[], int]:
    def turn() -> int:
        won = database.tx(lambda tx: claiming.claim(tx, session, limit=batch, handlers=["slow"], queues=None))
        if won:
            done = [
                Outcome(each.run_id, each.fence, each.attempt, AttemptOutcome.SUCCEEDED, 0, 5, exit_code=0)
                for each in won
            ]
            database.tx(lambda tx: claims.finish(tx, session, done))
        return len(won)

    return turn


def bare_postgresql(url: str, session: Session, batch: int) -> Callable[[], int]:
    connection = psycopg.connect(conninfo_of(url), autocommit=True, prepare_threshold=0)
    prove = "SELECT id FROM nodes WHERE id = %s AND lease_until_us > 0 FOR KEY SHARE"
    claim = """
        WITH due AS MATERIALIZED (SELECT id FROM runs WHERE state = 'Pending' ORDER BY order_key, id LIMIT %s
                                  FOR UPDATE SKIP LOCKED)
        UPDATE runs SET state = 'Running', fence = fence + 1, attempt = attempt + 1, node_id = %s,
               started_us = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        FROM due WHERE runs.id = due.id RETURNING runs.id, runs.fence"""
    finish = f"""
        WITH i AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[]) AS t(id, fence)),
             d AS (DELETE FROM runs USING i WHERE runs.id = i.id AND runs.fence = i.fence AND runs.node_id = %s
                   RETURNING runs.*),
             a AS (INSERT INTO attempts (run_id, fence, attempt, node_id, outcome, started_us, finished_us, exit_code)
                   SELECT id, fence, attempt, node_id, 'Succeeded', started_us, started_us + 5, 0 FROM d)
        INSERT INTO run_history (run_id, {KEPT}, state, finished_us, exit_code)
        SELECT id, {KEPT}, 'Succeeded', started_us + 5, 0 FROM d RETURNING run_id"""

    def turn() -> int:
        with connection.transaction():
            connection.execute(prove, (session.node_id,))
            won = connection.execute(claim, (batch, session.node_id)).fetchall()
        if won:
            with connection.transaction():
                connection.execute(prove, (session.node_id,))
                ids, fences = [row[0] for row in won], [row[1] for row in won]
                connection.execute(finish, (ids, fences, session.node_id)).fetchall()
        return len(won)

    return turn


def bare_sqlite(url: str, session: Session, batch: int) -> Callable[[], int]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, cached_statements=256)
    connection.execute("PRAGMA synchronous=FULL")
    prove = "SELECT id FROM nodes WHERE id = ? AND lease_until_us > 0"
    claim = """
        WITH due AS (SELECT id FROM runs WHERE state IN ('Pending') ORDER BY order_key, id LIMIT ?)
        UPDATE runs SET state = 'Running', fence = fence + 1, attempt = attempt + 1, node_id = ?, started_us = ?
        WHERE id IN (SELECT id FROM due) RETURNING id, fence"""
    given = "(SELECT json_extract(value, '$[0]') AS run, json_extract(value, '$[1]') AS fenced FROM json_each(?))"
    held = f"FROM runs JOIN {given} ON id = run AND fence = fenced WHERE node_id = ?"
    history = f"run_id, {KEPT}, state, finished_us, exit_code"
    attempt = "run_id, fence, attempt, node_id, outcome, started_us, finished_us, exit_code"
    over = f"id, {KEPT}, 'Succeeded', started_us + 5, 0"
    ended = "id, fence, attempt, node_id, 'Succeeded', started_us, started_us + 5, 0"
    steps = (
        f"INSERT INTO run_history ({history}) SELECT {over} {held}",
        f"INSERT INTO attempts ({attempt}) SELECT {ended} {held}",
        f"DELETE FROM runs WHERE id IN (SELECT id {held})",
    )

    def turn() -> int:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(prove, (session.node_id,))
        won = connection.execute(claim, (batch, session.node_id, 1)).fetchall()
        connection.execute("COMMIT")
        if won:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(prove, (session.node_id,))
            for step in steps:
                connection.execute(step, (json.dumps(won), session.node_id))
            connection.execute("COMMIT")
        return len(won)

    return turn


def rate(turn: Callable[[], int]) -> float:
    """Drain everything; give runs per second."""
    started, done = time.perf_counter(), 0
    while number := turn():
        done += number
    return done / (time.perf_counter() - started)


def measure(url: str, total: int, repeats: int, cap: int | None) -> None:
    database, session = prepare(url, cap)
    bare = bare_sqlite if database.is_sqlite else bare_postgresql
    shown = "SQLite, FULL" if database.is_sqlite else "PostgreSQL"
    print(f"{shown}: runs/s, median of {repeats} ({total} runs; a tenth of that at batch 1)")
    for batch in BATCHES:
        number = total if batch > 1 else total // 10
        loops = {"ours": ours(database, session, batch), "bare": bare(url, session, batch)}
        found: dict[str, list[float]] = {name: [] for name in loops}
        for _ in range(repeats):
            for name, turn in loops.items():
                fill(database, number)
                found[name].append(rate(turn))
        mine, floor = (statistics.median(found[name]) for name in ("ours", "bare"))
        print(f"  batch {batch:>5}: ours {mine:>9,.0f}   bare {floor:>9,.0f}   ratio {mine / floor:.2f}")
    database.close()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], help="without it: both")
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cap", type=int, default=None)
    chosen = parser.parse_args(arguments)
    if chosen.store != "postgresql":
        with tempfile.TemporaryDirectory() as folder:
            measure(f"sqlite:///{Path(folder) / 'store.db'}", chosen.runs, chosen.repeats, chosen.cap)
    if chosen.store != "sqlite":
        with PostgresServer.find() as server:
            measure(server.create_database(), chosen.runs, chosen.repeats, chosen.cap)


if __name__ == "__main__":
    main()
