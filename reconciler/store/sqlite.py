"""SQLite, the engine of one machine.

It has one writer at a time (`BEGIN IMMEDIATE`: a read transaction that turns writer fails at once) and runs on this
machine's clocks: wall time for slots, CLOCK_BOOTTIME for leases.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Select,
    Table,
    Text,
    bindparam,
    create_engine,
    event,
    func,
    select,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from reconciler.clock import SECOND_US, Clock
from reconciler.store.dialect import KINDS, Columns, Limits, Rows, as_json
from reconciler.store.files import refuse_network_file
from reconciler.store.hints import Changes, Hints

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PRAGMAS: Final = ("journal_mode=WAL", "synchronous=FULL", "cache_size=-16384", "temp_store=MEMORY")


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
        value = as_json(rows) if rows is not None else None
        packed = bindparam(f"{name}_rows", value, type_=Text(), unique=filled, required=not filled)
        each = func.json_each(packed).table_valued("value", joins_implicitly=True)
        picked = [
            func.json_extract(each.c.value, f"$[{at}]", type_=KINDS[kind]).label(column)
            for at, (column, kind) in enumerate(columns.items())
        ]
        return select(*picked).subquery(name)

    def pack(self, name: str, columns: Columns, rows: Rows) -> dict[str, Any]:  # noqa: ARG002 - see the other engine
        return {f"{name}_rows": as_json(rows)}

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
