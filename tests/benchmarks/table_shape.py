"""Which tables should a live run stand in? The same life of a run on five shapes.

    python -m tests.benchmarks.table_shape --store postgresql|sqlite [--runs 20000] [--repeats 3]

A run here includes: its insert as a waiting row, the promotion at its instant, a fenced claim under the node's lock,
a fenced finish that writes history and attempt. Batches of 100, one transaction per step, one connection, a standing
backlog of 2,000 claimable runs. PostgreSQL: default durability; each shape also runs while another connection holds a
snapshot ("pinned"), which stops every clean-up of dead rows. SQLite: write-ahead log, synchronous=FULL.
Medians over the repeats, shapes in turn.
"""

import argparse
import json
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg

from tests.benchmarks._shapes import Shape, shapes
from tests.postgres import PostgresServer, conninfo_of

BATCH = 100
BACKLOG = 2_000
TRIGGERS = 500
Held = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Figures:
    """`dead`: row versions made garbage per run; `left`: those not yet cleaned up at the end, per run."""

    runs_per_second: float
    wal_bytes: float = 0
    dead: float = 0
    left: float = 0
    live_kib: float = 0
    claim_ms: float = 0


class Steps(Protocol):
    """One transaction each."""

    def insert(self, new: Held) -> None: ...
    def promote(self, now: int) -> None: ...
    def claim(self, now: int) -> Held: ...
    def finish(self, held: Held, now: int) -> None: ...


class PostgresSteps:
    def __init__(self, connection: psycopg.Connection[Any], shape: Shape) -> None:
        self._connection = connection
        self._insert = _for_psycopg(shape.insert)
        self._promote, self._claim, self._finish = (
            _for_psycopg(step[0]) for step in (shape.promote, shape.claim, shape.finish)
        )

    def insert(self, new: Held) -> None:
        self._run(self._insert, {"triggers": [pair[0] for pair in new], "slots": [pair[1] for pair in new]})

    def promote(self, now: int) -> None:
        self._run(self._promote, {"now": now, "n": BATCH})

    def claim(self, now: int) -> Held:
        with self._connection.transaction():
            self._connection.execute("SELECT id FROM nodes WHERE id = 1 FOR KEY SHARE", prepare=True)
            return self._connection.execute(self._claim, {"now": now, "n": BATCH}, prepare=True).fetchall()

    def finish(self, held: Held, now: int) -> None:
        ids, fences = [pair[0] for pair in held], [pair[1] for pair in held]
        self._run(self._finish, {"ids": ids, "fences": fences, "now": now})

    def _run(self, statement: bytes, values: dict[str, Any]) -> None:
        if self._connection.execute(statement, values, prepare=True).rowcount != BATCH:
            raise AssertionError(f"a step lost rows: {statement!r}")


class SqliteSteps:
    def __init__(self, connection: sqlite3.Connection, shape: Shape) -> None:
        self._connection = connection
        self._shape = shape

    def insert(self, new: Held) -> None:
        self._run((self._shape.insert,), {"pairs": json.dumps(new)})

    def promote(self, now: int) -> None:
        self._run(self._shape.promote, {"now": now, "n": BATCH})

    def claim(self, now: int) -> Held:
        return self._run(self._shape.claim, {"now": now, "n": BATCH})

    def finish(self, held: Held, now: int) -> None:
        self._run(self._shape.finish, {"pairs": json.dumps(held), "now": now})

    def _run(self, statements: Sequence[str], values: dict[str, Any]) -> Held:
        self._connection.execute("BEGIN IMMEDIATE")
        returned: Held = []
        for statement in statements:
            cursor = self._connection.execute(statement, values)
            returned = cursor.fetchall() or returned
        self._connection.execute("COMMIT")
        return returned


def live(steps: Steps, runs: int, ready: Callable[[], None]) -> tuple[float, list[float]]:
    """Seconds for `runs` whole lives behind a standing backlog, and the seconds of each claim."""
    slot = 0
    claims: list[float] = []

    def arrive() -> None:
        nonlocal slot
        steps.insert([(number % TRIGGERS, number) for number in range(slot, slot + BATCH)])
        slot += BATCH
        steps.promote(slot)

    for _ in range(BACKLOG // BATCH):
        arrive()
    ready()
    begun = time.perf_counter()
    for _ in range(runs // BATCH):
        arrive()
        before = time.perf_counter()
        held = steps.claim(slot)
        claims.append(time.perf_counter() - before)
        if len(held) != BATCH:
            raise AssertionError(f"claimed {len(held)} of {BATCH}")
        steps.finish(held, slot)
    return time.perf_counter() - begun, claims


def on_postgres(server: PostgresServer, shape: Shape, runs: int, *, pinned: bool) -> Figures:
    url = server.create_database()
    conninfo = conninfo_of(url)
    with psycopg.connect(conninfo, autocommit=True) as ours, psycopg.connect(conninfo) as other:
        ours.execute(shape.schema.encode())
        # What the scheduler does too: plans made while the tables were empty must not stay.
        ours.execute("SET enable_seqscan = off")
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        start: list[Any] = []

        def ready() -> None:
            ours.execute("ANALYZE")
            ours.execute("CHECKPOINT")
            start.extend((_value(ours, "SELECT pg_current_wal_insert_lsn()"), _garbage(ours)[0]))
            if pinned:
                other.execute("SELECT count(*) FROM attempts")

        seconds, claims = live(PostgresSteps(ours, shape), runs, ready)
        wal = _value(ours, "SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", start[0])
        made, left = _garbage(ours)
        tables = list(shape.live)
        size = _value(
            ours, "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) AS name", tables
        )
    server.drop_database(url)
    return Figures(
        runs / seconds,
        float(wal) / runs,
        float(made - start[1]) / runs,
        left / runs,
        float(size) / 1024,
        _late(claims),
    )


def on_sqlite(shape: Shape, runs: int) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(shape.schema)
            seconds, claims = live(SqliteSteps(connection, shape), runs, lambda: None)
    return Figures(runs / seconds, claim_ms=_late(claims))


def median_of(samples: Sequence[Figures]) -> Figures:
    fields = Figures.__slots__
    return Figures(*(statistics.median(getattr(sample, name) for sample in samples) for name in fields))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    if given.store == "sqlite":
        _report_sqlite(given.runs, given.repeats)
    else:
        _report_postgres(given.runs, given.repeats)


def _report_sqlite(runs: int, repeats: int) -> None:
    print(f"SQLite {sqlite3.sqlite_version}, synchronous=FULL, {runs} runs, {repeats} repeats")
    print(f"{'shape':42}{'runs/s':>8}{'claim p95 ms':>14}")
    samples: dict[str, list[Figures]] = {shape.name: [] for shape in shapes("sqlite")}
    for _ in range(repeats):
        for shape in shapes("sqlite"):
            samples[shape.name].append(on_sqlite(shape, runs))
    for name, taken in samples.items():
        found = median_of(taken)
        print(f"{name:42}{found.runs_per_second:8.0f}{found.claim_ms:14.2f}")


def _report_postgres(runs: int, repeats: int) -> None:
    candidates = shapes("postgresql")
    samples: dict[tuple[str, bool], list[Figures]] = {}
    with PostgresServer.find(autovacuum_naptime="1s", max_wal_size="8GB", checkpoint_timeout="30min") as server:
        with psycopg.connect(server.conninfo()) as connection:
            print(f"PostgreSQL {_value(connection, 'SHOW server_version')}, {runs} runs, {repeats} repeats")
        for _ in range(repeats):
            for shape in candidates:
                for pinned in (False, True):
                    taken = on_postgres(server, shape, runs, pinned=pinned)
                    samples.setdefault((shape.name, pinned), []).append(taken)
    print(
        f"{'shape':42}{'runs/s':>8}{'WAL/run':>9}{'dead/run':>9}{'left/run':>9}{'live KiB':>9}{'claim p95':>10}"
        f"{'pinned runs/s':>15}{'ratio':>7}{'live KiB':>9}{'claim p95':>10}"
    )
    for shape in candidates:
        free, held = (median_of(samples[shape.name, pinned]) for pinned in (False, True))
        print(
            f"{shape.name:42}{free.runs_per_second:8.0f}{free.wal_bytes:9.0f}{free.dead:9.2f}{free.left:9.2f}"
            f"{free.live_kib:9.0f}{free.claim_ms:10.2f}{held.runs_per_second:15.0f}"
            f"{held.runs_per_second / free.runs_per_second:7.2f}{held.live_kib:9.0f}{held.claim_ms:10.2f}"
        )


def _for_psycopg(statement: str) -> bytes:
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement.replace("%", "%%")).encode()


def _value(connection: psycopg.Connection[Any], query: str, *values: Any) -> Any:
    row = connection.execute(query.encode(), values or None).fetchone()
    return row[0] if row else None


def _garbage(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """Row versions ever made garbage, and those still lying about."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    row = connection.execute(
        "SELECT sum(n_tup_upd + n_tup_del)::bigint, sum(n_dead_tup)::bigint FROM pg_stat_user_tables"
    ).fetchone()
    return (row[0], row[1]) if row else (0, 0)


def _late(claims: Sequence[float]) -> float:
    """The 95th percentile of the last quarter, where whatever piles up has piled up; in milliseconds."""
    return statistics.quantiles(claims[-max(len(claims) // 4, 2) :], n=20)[-1] * 1000


if __name__ == "__main__":
    main()
