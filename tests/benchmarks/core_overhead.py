"""What does SQLAlchemy Core cost on the hot path? The same claim and finish, written four ways.

    python -m tests.benchmarks.core_overhead --store postgresql|sqlite [--seconds 1.5]

- each time: the Core expression is built anew at every call (SQLAlchemy's own cache still spares the compiling)
- built once: the expression is built once with bindparams, then `connection.execute(statement, values)`
- text once: it is compiled to a string once, then `connection.exec_driver_sql(text, values)`
- raw: the same string on the driver's cursor

Claim is one statement; finish is one on PostgreSQL and two on SQLite (insert into history, delete). BEGIN and COMMIT
are outside the measure; the table holds 20,000 runs, restored between samples by ROLLBACK. Median microseconds per
step, and of those the client's own processor time.
"""

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Delete,
    Engine,
    Executable,
    Identity,
    Index,
    Insert,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    Update,
    bindparam,
    column,
    create_engine,
    delete,
    event,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from tests.postgres import PostgresServer

RUNS = 20_000
BATCHES = (1, 10, 100)
Big = BigInteger().with_variant(Integer(), "sqlite")
Values = dict[str, Any]
Step = Callable[[Values], Sequence[Any]]

metadata = MetaData()
runs = Table(
    "runs",
    metadata,
    Column("id", Big, Identity(), primary_key=True),
    Column("definition_id", BigInteger, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("slot_us", BigInteger, nullable=False),
    Column("order_key", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("node_id", BigInteger),
    Column("started_us", BigInteger),
    Index(
        "ready",
        "order_key",
        "id",
        postgresql_where=text("state = 'Pending'"),
        sqlite_where=text("state = 'Pending'"),
    ),
)
history = Table(
    "run_history",
    metadata,
    Column("run_id", BigInteger, primary_key=True, autoincrement=False),
    Column("definition_id", BigInteger, nullable=False),
    Column("slot_us", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("finished_us", BigInteger, nullable=False),
)
KEPT = ("run_id", "definition_id", "slot_us", "fence", "attempt", "state", "finished_us")


@dataclass(frozen=True, slots=True)
class Way:
    """One manner of running a step on an open connection."""

    name: str
    claim: Step
    finish: Step


@dataclass(frozen=True, slots=True)
class Cost:
    wall_us: float
    client_us: float


def claim(values: Values | None = None) -> Update:
    """With `values` the expression carries them; without, it has bindparams."""
    node, now, limit = (_value(values, name) for name in ("node", "now", "n"))
    pick = (
        select(runs.c.id)
        .where(runs.c.state == "Pending")
        .order_by(runs.c.order_key, runs.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("pick")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    return (
        update(runs)
        .where(runs.c.id.in_(select(pick.c.id)))
        .values(state="Running", fence=runs.c.fence + 1, attempt=runs.c.attempt + 1, node_id=node, started_us=now)
        .returning(runs.c.id, runs.c.fence)
    )


def finish_postgres(values: Values | None = None) -> Sequence[Executable]:
    ids, fences = (_value(values, name, ARRAY(BigInteger)) for name in ("ids", "fences"))
    given = func.unnest(ids, fences).table_valued(column("id", BigInteger), column("fence", BigInteger), name="given")
    given = given.render_derived()
    gone = (
        delete(runs)
        .where(runs.c.id == given.c.id, runs.c.fence == given.c.fence, runs.c.state.in_(("Claimed", "Running")))
        .returning(runs.c.id, runs.c.definition_id, runs.c.slot_us, runs.c.fence, runs.c.attempt)
        .cte("gone")
    )
    ended = select(*gone.c, literal("Succeeded"), _value(values, "now"))
    return (insert(history).from_select(KEPT, ended).returning(history.c.run_id),)


def finish_sqlite(values: Values | None = None) -> Sequence[Executable]:
    pairs = func.json_each(_value(values, "pairs", Text())).table_valued("value", name="given")
    given = select(
        func.json_extract(pairs.c.value, "$[0]").label("id"), func.json_extract(pairs.c.value, "$[1]").label("fence")
    ).subquery("pair")
    found = (
        select(runs.c.id, runs.c.definition_id, runs.c.slot_us, runs.c.fence, runs.c.attempt)
        .join_from(given, runs, runs.c.id == given.c.id)
        .where(runs.c.fence == given.c.fence, runs.c.state.in_(("Claimed", "Running")))
    )
    ended: Select[Any] = found.add_columns(literal("Succeeded"), _value(values, "now"))
    kept: Insert = insert(history).from_select(KEPT, ended).returning(history.c.run_id)
    gone: Delete = delete(runs).where(runs.c.id.in_(found.with_only_columns(runs.c.id)))
    return kept, gone


def ways(connection: Connection) -> list[Way]:
    finish = finish_postgres if connection.dialect.name == "postgresql" else finish_sqlite
    claim_once, finish_once = claim(), finish()
    claim_text, finish_text = (_texts(connection, statements) for statements in ((claim_once,), finish_once))
    cursor = connection.connection.cursor()

    def core(statements: Sequence[Executable], values: Values | None = None) -> Sequence[Any]:
        results = [connection.execute(statement, values) for statement in statements]
        return results[0].fetchall()

    def driver(statements: Sequence[tuple[str, Values]], values: Values) -> Sequence[Any]:
        results = [connection.exec_driver_sql(said, fixed | values) for said, fixed in statements]
        return results[0].fetchall()

    def raw(statements: Sequence[tuple[str, Values]], values: Values) -> Sequence[Any]:
        rows: Sequence[Any] = ()
        for said, fixed in statements:
            cursor.execute(said, fixed | values)
            rows = rows or cursor.fetchall()
        return rows

    return [
        Way("each time", lambda values: core((claim(values),)), lambda values: core(finish(values))),
        Way("built once", lambda values: core((claim_once,), values), lambda values: core(finish_once, values)),
        Way("text once", lambda values: driver(claim_text, values), lambda values: driver(finish_text, values)),
        Way("raw", lambda values: raw(claim_text, values), lambda values: raw(finish_text, values)),
    ]


def measure(connection: Connection, way: Way, batch: int, seconds: float) -> tuple[Cost, Cost]:
    """Medians for claim and finish: pairs of them until the time or the runs are used up, then back to the start."""
    claims: list[Cost] = []
    finishes: list[Cost] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        connection.begin()
        for now in range(min(RUNS // batch, 1_000) // 2):
            held = _timed(way.claim, {"node": 1, "now": now, "n": batch}, claims)
            done = _timed(way.finish, _held_values(connection, held, now), finishes)
            if len(held) != batch or len(done) != batch:
                raise AssertionError(f"{way.name}: {len(held)} claimed, {len(done)} finished, {batch} wanted")
        connection.rollback()
    return _median(claims), _median(finishes)


def report(engine: Engine, seconds: float) -> None:
    metadata.create_all(engine)
    fixed: Values = {"generation": 1, "state": "Pending", "fence": 0, "attempt": 0}
    rows = [fixed | {"definition_id": n % 50, "slot_us": n, "order_key": n} for n in range(RUNS)]
    with engine.begin() as connection:
        connection.execute(insert(runs), rows)
    heads = f"{'claim us':>10}{'client':>8}{'x raw':>7}{'finish us':>11}{'client':>8}{'x raw':>7}"
    print(f"{'batch':>5}  {'way':12}{heads}")
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET enable_seqscan = off"))
        connection.commit()
        for batch in BATCHES:
            # Twice through, the second is kept: caches, prepared statements and the hint bits of the rows are warm.
            for way in ways(connection):
                measure(connection, way, batch, seconds / 5)
            costs = {way.name: measure(connection, way, batch, seconds) for way in ways(connection)}
            for name, (claimed, finished) in costs.items():
                raw_claim, raw_finish = costs["raw"]
                print(
                    f"{batch:5}  {name:12}{claimed.wall_us:10.0f}{claimed.client_us:8.0f}"
                    f"{claimed.wall_us / raw_claim.wall_us:7.2f}{finished.wall_us:11.0f}{finished.client_us:8.0f}"
                    f"{finished.wall_us / raw_finish.wall_us:7.2f}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--seconds", type=float, default=1.5, help="per way and batch size")
    given = parser.parse_args()
    if given.store == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            print(f"SQLite {sqlite3.sqlite_version}")
            report(_sqlite_engine(Path(folder) / "store.db"), given.seconds)
        return
    with PostgresServer.find(max_wal_size="8GB") as server:
        engine = create_engine(server.create_database(), connect_args={"prepare_threshold": 0})
        with engine.connect() as connection:
            print(f"PostgreSQL {connection.execute(text('SHOW server_version')).scalar_one()}")
        report(engine, given.seconds)
        engine.dispose()


def _value(values: Values | None, name: str, kind: Any = BigInteger) -> Any:
    return literal(values[name], kind) if values else bindparam(name, None, kind)


def _held_values(connection: Connection, held: Sequence[Any], now: int) -> Values:
    if connection.dialect.name == "sqlite":
        return {"pairs": json.dumps([tuple(row) for row in held]), "now": now}
    return {"ids": [row[0] for row in held], "fences": [row[1] for row in held], "now": now}


def _texts(connection: Connection, statements: Sequence[Executable]) -> list[tuple[str, Values]]:
    """The driver's own string for each, with the constants it binds."""
    texts = []
    for statement in statements:
        compiled = statement.compile(  # type: ignore[attr-defined]
            dialect=connection.dialect, compile_kwargs={"render_postcompile": True}
        )
        texts.append((str(compiled), {name: value for name, value in compiled.params.items() if value is not None}))
    return texts


def _timed(step: Step, values: Values, into: list[Cost]) -> Sequence[Any]:
    wall, client = time.perf_counter_ns(), time.process_time_ns()
    rows = step(values)
    into.append(Cost((time.perf_counter_ns() - wall) / 1000, (time.process_time_ns() - client) / 1000))
    return rows


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(statistics.median(cost.wall_us for cost in costs), statistics.median(cost.client_us for cost in costs))


def _sqlite_engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", paramstyle="named")

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _: object) -> None:
        # The driver begins a transaction for INSERT, UPDATE and DELETE, but not for WITH … UPDATE: begin it ourselves.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


if __name__ == "__main__":
    main()
