"""Every difference between the two engines: connections, the clock, lists of values, faults that pass.

SQLite has one writer at a time (`BEGIN IMMEDIATE`: a read transaction that turns writer fails at once) and runs on this
machine's clocks: wall time for slots, CLOCK_BOOTTIME for leases. PostgreSQL runs READ COMMITTED whatever the server's
default, and on its own clock: `clock_timestamp()`, since `now()` stands still for a whole transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    create_engine,
    event,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy import column as sql_column
from sqlalchemy import table as sql_table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from reconciler.clock import SECOND_US, Clock
from reconciler.errors import UsageError
from reconciler.store.files import refuse_network_file
from reconciler.store.hints import Changes, Hints, Notifications, notify
from reconciler.store.silence import connect_impatiently

Columns = Mapping[str, type]
"""Names and types (int, str, bool) of the columns of a list of values."""
Rows = Sequence[Sequence[Any]]
"""One sequence per row, in the order of the columns."""

_KINDS: Final[Mapping[type, TypeEngine[Any]]] = {int: BigInteger(), str: Text(), bool: Boolean()}
_MAX_REPEATS: Final = 8
_IMPATIENT: Final = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
}
"""A server whose host is gone, or whose network is cut, is noticed within seconds, not after the kernel's two hours; a
standby, or a server that was made read-only, is no store."""
_VITALS: Final = """
  SELECT coalesce((SELECT extract(epoch FROM max(clock_timestamp() - xact_start)) FROM pg_stat_activity
                   WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()), 0)::float8 AS oldest_xmin_age_seconds,
         coalesce((SELECT n_dead_tup FROM pg_stat_user_tables
                   WHERE relid = to_regclass('runs')), 0)::float8 AS run_dead_tuples,
         pg_database_size(current_database())::float8 AS size_bytes
"""
"""An old snapshot keeps the database from cleaning up what claims walk over."""
_WATCHFUL: Final = {
    "client_connection_check_interval": "1s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}
"""And the other way round: a client that is gone while its statement runs is noticed by the server, within a second if
it was killed, within about ten if its host is gone. Otherwise a killed leader holds the row of its term, and keeps the
next one waiting, until its statement ends."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PG_SETTINGS: Final = sql_table("pg_settings", sql_column("name"), sql_column("setting"))
_PG_TOLD: Final = ("server_version_num", "fsync", "full_page_writes", "synchronous_commit", "max_connections")
_PRAGMAS: Final = ("journal_mode=WAL", "synchronous=FULL", "cache_size=-16384", "temp_store=MEMORY")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long PostgreSQL and its clients wait for one another, in seconds; 0 means as long as it takes."""

    stall_seconds: float = 5.0
    """A transaction that does nothing is ended then, so that a process that stopped in it holds up nobody."""
    answer_seconds: float = 30.0
    """A statement is cancelled then, one that waits for a lock after a third of it; see also `silence.py`."""


DEFAULT_LIMITS: Final = Limits()
NO_LIMITS: Final = Limits(stall_seconds=0, answer_seconds=0)


class Dialect(Protocol):
    """What the rest of the store asks of an engine."""

    has_one_writer: bool

    def engines(self, url: URL, limits: Limits, clock: Clock) -> tuple[Engine, Engine]:
        """Give the engine that writes and the one that reads."""

    def now(self, clock: Clock) -> ColumnElement[int]:
        """Give the store's clock in microseconds, as an expression that is evaluated when its statement runs."""

    def lease_now(self, clock: Clock) -> ColumnElement[int]:
        """Give the clock that leases and terms run on, in microseconds."""

    def boot_id(self) -> str | None:
        """Name what that clock counts from; None where it never begins anew."""

    def rows(self, name: str, columns: Columns, rows: Rows | None) -> FromClause:
        """Make a table of values in constant SQL text, whatever their number; None leaves them to `pack`."""

    def pack(self, name: str, columns: Columns, rows: Rows) -> dict[str, Any]:
        """Give the parameters that fill a table of values."""

    def facts(self, connection: Connection) -> dict[str, str]:
        """Tell what of the engine's version and settings our promises hang on."""

    def first_of_each(
        self, each: FromClause, table: Table, first: Callable[[FromClause], Select[Any]], *, lock: bool
    ) -> tuple[FromClause, FromClause]:
        """Join to each row what `first` picks of a table for it, and give the join and the picked rows.

        `first` takes the table, and compares it with `each`; it orders and limits. With `lock` the rows are locked as
        they are picked, passing over what others hold.
        """

    def unlocked_alike(self, best: CTE, others: Callable[[Any, Any], Select[Any]]) -> Select[Any]:
        """Lock as many rows of each kind as `best` counts, and give their ids: these, or what others leave free.

        `best` has columns `kind` and `id`; `others` selects ids by a kind and a number.
        """

    def insert(self, table: Table) -> postgresql.Insert | sqlite.Insert:
        """Begin an INSERT that knows `on_conflict_do_nothing`."""

    def hint(self, engine: Engine) -> None:
        """Tell other processes that something became claimable; see `hints.py`."""

    def hints(self, engine: Engine) -> Hints:
        """Begin to hear of it."""

    def vitals(self, connection: Connection) -> Mapping[str, float]:
        """Measure the engine's own health: what keeps it from cleaning up, and how much it has not cleaned."""

    def is_busy(self, fault: DBAPIError) -> bool:
        """Tell whether others merely hold the lock, for as long as one cares to wait."""

    def is_late(self, fault: DBAPIError) -> bool:
        """Tell whether a statement was given up since it took too long."""

    def may_pass(self, fault: DBAPIError, repeats: int) -> bool:
        """Tell whether the transaction may succeed when it is run again after `repeats` failures."""


class Sqlite:
    """The embedded engine: one file, one machine, one writer."""

    has_one_writer = True

    def engines(self, url: URL, limits: Limits, clock: Clock) -> tuple[Engine, Engine]:  # noqa: ARG002 - see the other
        path = Path(str(url.database))
        refuse_network_file(path)

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(
                path, timeout=0.0, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            # Switching to WAL needs the file alone for a moment; everything later waits by our own, fair rule.
            connection.execute("PRAGMA busy_timeout=5000")
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("PRAGMA busy_timeout=0")
            return connection

        writer = create_engine(url, creator=connect, pool_size=1, max_overflow=0)
        reader = create_engine(url, creator=connect, pool_size=4, max_overflow=4)
        event.listen(writer, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        event.listen(reader, "begin", lambda connection: connection.exec_driver_sql("BEGIN DEFERRED"))
        return writer, reader

    def now(self, clock: Clock) -> ColumnElement[int]:
        return bindparam("store_now_us", callable_=clock.now_us, type_=BigInteger())

    def lease_now(self, clock: Clock) -> ColumnElement[int]:
        # One kernel serves every process of the store, and no step of the wall clock may end or prolong a lease.
        return bindparam("lease_now_us", callable_=lambda: round(clock.elapsed() * SECOND_US), type_=BigInteger())

    def boot_id(self) -> str | None:
        return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else None

    def rows(self, name: str, columns: Columns, rows: Rows | None) -> FromClause:
        filled = rows is not None
        value = _json(rows) if rows is not None else None
        packed = bindparam(f"{name}_rows", value, type_=Text(), unique=filled, required=not filled)
        each = func.json_each(packed).table_valued("value", joins_implicitly=True)
        picked = [
            func.json_extract(each.c.value, f"$[{at}]", type_=_KINDS[kind]).label(column)
            for at, (column, kind) in enumerate(columns.items())
        ]
        return select(*picked).subquery(name)

    def pack(self, name: str, columns: Columns, rows: Rows) -> dict[str, Any]:  # noqa: ARG002 - see the other engine
        return {f"{name}_rows": _json(rows)}

    def facts(self, connection: Connection) -> dict[str, str]:
        asked = {"sqlite_version": "SELECT sqlite_version()"}
        asked |= {name: f"PRAGMA {name}" for name in ("journal_mode", "synchronous")}
        return {name: str(connection.exec_driver_sql(query).scalar_one()) for name, query in asked.items()}

    def first_of_each(
        self,
        each: FromClause,
        table: Table,
        first: Callable[[FromClause], Select[Any]],
        *,
        lock: bool,  # noqa: ARG002 - there is one writer
    ) -> tuple[FromClause, FromClause]:
        inner, found = table.alias(), table.alias()
        picked = first(inner).with_only_columns(inner.c.id).correlate(each)
        return each.join(found, found.c.id.in_(picked)), found

    def unlocked_alike(self, best: CTE, others: Callable[[Any, Any], Select[Any]]) -> Select[Any]:  # noqa: ARG002
        return select(best.c.id)

    def insert(self, table: Table) -> sqlite.Insert:
        return sqlite.insert(table)

    def hint(self, engine: Engine) -> None:
        """Nothing to do: every commit can be seen in the file."""

    def hints(self, engine: Engine) -> Hints:
        return Changes(engine)

    def vitals(self, connection: Connection) -> Mapping[str, float]:
        pages = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_size", "page_count")
        }
        return {"size_bytes": pages["page_size"] * pages["page_count"]}

    def is_busy(self, fault: DBAPIError) -> bool:
        return isinstance(fault.orig, sqlite3.OperationalError) and "locked" in str(fault.orig)

    def is_late(self, fault: DBAPIError) -> bool:  # noqa: ARG002 - see the other engine
        return False

    def may_pass(self, fault: DBAPIError, repeats: int) -> bool:  # noqa: ARG002 - see the other engine
        return self.is_busy(fault)


class Postgresql:
    """The engine of many machines."""

    has_one_writer = False
    _passing: Final = frozenset({"40001", "40P01"})  # serialization failure, deadlock
    _late: Final = frozenset({"55P03", "57014"})  # lock timeout, statement timeout
    _read_only: Final = "25006"

    def engines(self, url: URL, limits: Limits, clock: Clock) -> tuple[Engine, Engine]:
        options = (
            f"{url.query.get('options', '')} -c default_transaction_isolation=read\\ committed -c timezone=UTC "
            f"-c idle_in_transaction_session_timeout={round(limits.stall_seconds * 1000)} "
            f"-c statement_timeout={round(limits.answer_seconds * 1000)} "
            f"-c lock_timeout={round(limits.answer_seconds * 1000 / 3)} "
            + " ".join(f"-c {name}={value}" for name, value in _WATCHFUL.items())
        )
        chosen = {"application_name": "reconciler", **_IMPATIENT}
        given = {name: value for name, value in chosen.items() if name not in url.query}
        try:
            engine = create_engine(
                url,
                pool_size=4,
                max_overflow=8,
                pool_pre_ping=True,
                pool_timeout=10,
                connect_args={"options": options, **given},
            )
        except ModuleNotFoundError as fault:
            raise UsageError("PostgreSQL needs its driver: pip install 'reconciler-scheduler[postgres]'") from fault
        connect_impatiently(engine, limits.answer_seconds, clock)
        event.listen(engine, "handle_error", self._drop_read_only)
        return engine, engine

    def now(self, clock: Clock) -> ColumnElement[int]:  # noqa: ARG002 - nodes need not agree on the time
        return cast(func.extract("epoch", func.clock_timestamp()) * literal_column("1000000"), BigInteger())

    def lease_now(self, clock: Clock) -> ColumnElement[int]:
        return self.now(clock)

    def boot_id(self) -> str | None:
        return None

    def rows(self, name: str, columns: Columns, rows: Rows | None) -> FromClause:
        arrays = []
        for at, (column, kind) in enumerate(columns.items()):
            array, key, filled = ARRAY(_KINDS[kind]), f"{name}_{column}", rows is not None
            value = [row[at] for row in rows] if rows is not None else None
            arrays.append(cast(bindparam(key, value, type_=array, unique=filled, required=not filled), array))
        made = [Column(column, _KINDS[kind]) for column, kind in columns.items()]
        return func.unnest(*arrays).table_valued(*made).render_derived(name=name)

    def pack(self, name: str, columns: Columns, rows: Rows) -> dict[str, Any]:
        return {f"{name}_{column}": [row[at] for row in rows] for at, column in enumerate(columns)}

    def facts(self, connection: Connection) -> dict[str, str]:
        told = connection.execute(select(_PG_SETTINGS).where(_PG_SETTINGS.c.name.in_(_PG_TOLD)))
        facts = {row.name: str(row.setting) for row in told}
        facts["connections"] = str(
            connection.exec_driver_sql(
                "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            ).scalar_one()
        )
        tls = connection.exec_driver_sql(
            "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        ).scalar_one_or_none()
        return {**facts, "tls": "on" if tls else "off"}

    def first_of_each(
        self, each: FromClause, table: Table, first: Callable[[FromClause], Select[Any]], *, lock: bool
    ) -> tuple[FromClause, FromClause]:
        picked = first(table).correlate(each)
        found = (picked.with_for_update(skip_locked=True, of=table) if lock else picked).lateral()
        return each.join(found, true()), found

    def unlocked_alike(self, best: CTE, others: Callable[[Any, Any], Select[Any]]) -> Select[Any]:
        # To lock the best of each kind would lock many more than are wanted, and hide them from everyone for a moment.
        share = select(best.c.kind, func.count().label("number")).group_by(best.c.kind).subquery("share")
        taken = others(share.c.kind, share.c.number).correlate(share).with_for_update(skip_locked=True).lateral("taken")
        return select(taken.c.id).select_from(share.join(taken, true()))

    def insert(self, table: Table) -> postgresql.Insert:
        return postgresql.insert(table)

    def hint(self, engine: Engine) -> None:
        notify(engine)

    def hints(self, engine: Engine) -> Hints:
        return Notifications(engine)

    def vitals(self, connection: Connection) -> Mapping[str, float]:
        return dict(connection.exec_driver_sql(_VITALS).mappings().one())

    def is_busy(self, fault: DBAPIError) -> bool:  # noqa: ARG002 - it waits by itself
        return False

    def is_late(self, fault: DBAPIError) -> bool:
        return _sqlstate(fault.orig) in self._late

    def may_pass(self, fault: DBAPIError, repeats: int) -> bool:
        return _sqlstate(fault.orig) in self._passing and repeats < _MAX_REPEATS

    def _drop_read_only(self, context: ExceptionContext) -> None:
        """Leave a server that takes no writes any more (a failover): the next connection looks for one that does."""
        if _sqlstate(context.original_exception) == self._read_only:
            context.is_disconnect = True


class TurnedPostgresql(Postgresql):
    """PostgreSQL on the clock of a test."""

    def now(self, clock: Clock) -> ColumnElement[int]:
        return bindparam("store_now_us", callable_=clock.now_us, type_=BigInteger())


def _sqlstate(fault: BaseException | None) -> str | None:
    return getattr(fault, "sqlstate", None)


def _json(rows: Rows) -> str:
    return json.dumps([list(row) for row in rows])
