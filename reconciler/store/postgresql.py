"""PostgreSQL, the engine of many machines.

It runs READ COMMITTED whatever the server's default, and on its own clock: `clock_timestamp()`, since `now()` stands
still for a whole transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Select,
    Table,
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
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import DBAPIError

from reconciler.clock import Clock
from reconciler.errors import UsageError
from reconciler.store.dialect import KINDS, MAX_REPEATS, Columns, Limits, Rows
from reconciler.store.hints import Hints, Notifications, notify
from reconciler.store.silence import connect_impatiently

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
_PG_SETTINGS: Final = sql_table("pg_settings", sql_column("name"), sql_column("setting"))
_PG_TOLD: Final = ("server_version_num", "fsync", "full_page_writes", "synchronous_commit", "max_connections")


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
            array, key, filled = ARRAY(KINDS[kind]), f"{name}_{column}", rows is not None
            value = [row[at] for row in rows] if rows is not None else None
            arrays.append(cast(bindparam(key, value, type_=array, unique=filled, required=not filled), array))
        made = [Column(column, KINDS[kind]) for column, kind in columns.items()]
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
        return _sqlstate(fault.orig) in self._passing and repeats < MAX_REPEATS

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
