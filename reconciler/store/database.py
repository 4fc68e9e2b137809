"""The one door to the store.

`Database.tx(fn)` runs `fn` in one transaction and may run it again after a passing fault, so `fn` has no side effects
beyond its statements. Statements that run often are built once: `Tx.run` keeps what a builder made. What differs
between the engines stands behind `dialect.py`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Engine,
    Executable,
    FromClause,
    Insert,
    Select,
    Table,
    literal_column,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from reconciler.clock import Chance, Clock, SystemChance, SystemClock
from reconciler.errors import KeyTakenError, StoreUnavailableError, UsageError
from reconciler.store.dialect import (
    DEFAULT_LIMITS,
    NO_LIMITS,
    Columns,
    Dialect,
    Limits,
    Rows,
)
from reconciler.store.hints import Hints
from reconciler.store.postgresql import Postgresql, TurnedPostgresql
from reconciler.store.sqlite import Sqlite
from reconciler.store.turnstile import FileTurnstile, OpenTurnstile, Turnstile

T = TypeVar("T")
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])

_KEY_REPEATS: Final = 8
_BUSY_FOR_SECONDS: Final = 30.0
_FORMS: Final = "sqlite:///path/to/file.db or postgresql://host/database"


@dataclass(frozen=True, slots=True)
class Tx:
    """One transaction: its connection, and the words its statements are made of."""

    connection: Connection
    now: ColumnElement[int]
    """The store's clock as a SQL expression, in microseconds; read when the statement runs."""
    lease_now: ColumnElement[int]
    """The clock that leases and terms run on; on SQLite no step of the wall clock moves it."""
    dialect: Dialect
    built: dict[Callable[[Tx], Executable], Executable]
    """Statements of this database that were built already, by their builder."""

    def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        """Run one statement."""
        result: CursorResult[Any] = self.connection.execute(statement, parameters)
        return result

    def run(self, build: Callable[[Tx], Executable], **values: Any) -> CursorResult[Any]:
        """Run the statement that `build` makes; it is built once, so `build` looks at nothing but the words."""
        statement = self.built.get(build)
        if statement is None:
            statement = self.built[build] = build(self)
        return self.execute(statement, values)

    def now_us(self) -> int:
        """Read the store's clock."""
        return int(self.run(_read_clock).scalar_one())

    def facts(self) -> dict[str, str]:
        """Tell what of the engine's version and settings our promises hang on."""
        return self.dialect.facts(self.connection)

    def rows(self, name: str, columns: Columns, rows: Rows | None = None) -> FromClause:
        """Make a table of values, of constant SQL text whatever their number.

        Without `rows`, as in a statement that is built once, `pack` gives the parameters that fill it.
        """
        return self.dialect.rows(name, columns, rows)

    def pack(self, name: str, columns: Columns, rows: Rows) -> dict[str, Any]:
        """Give the parameters that fill the table of values `name`."""
        return self.dialect.pack(name, columns, rows)

    def among(self, column: ColumnElement[Any], values: Iterable[Any]) -> ColumnElement[bool]:
        """Compare a column with a list of any length; the list is sorted."""
        given = self.rows("among", {"value": column.type.python_type}, [(value,) for value in sorted(values)])
        return column.in_(select(given.c.value))

    def insert_new(self, table: Table, columns: Sequence[str], query: Select[*tuple[Any, ...]]) -> Insert:
        """Insert what a query gives, leaving out rows whose key is taken. The query must have a WHERE clause."""
        return self.dialect.insert(table).from_select(columns, query).on_conflict_do_nothing()

    def for_change(self, query: Query, *, of: FromClause | None = None) -> Query:
        """Lock the rows a query finds, passing over rows that others hold (nothing to do on SQLite)."""
        return query.with_for_update(skip_locked=True, of=of)

    def share_key(self, query: Query, *, of: FromClause | None = None) -> Query:
        """Hold the found rows' keys until the end: a change of a key waits, other changes pass."""
        return query.with_for_update(read=True, key_share=True, of=of)


class Database:
    """A store by its URL: `sqlite:///path` or `postgresql+psycopg://…`."""

    def __init__(self, url: URL, dialect: Dialect, *, clock: Clock, chance: Chance, limits: Limits) -> None:
        """Keep the parts; `open` is the way in."""
        self.url = url
        self._dialect = dialect
        self._clock = clock
        self._chance = chance
        self._now = dialect.now(clock)
        self._lease_now = dialect.lease_now(clock)
        self._built: dict[Callable[[Tx], Executable], Executable] = {}
        self._writing = threading.RLock()
        self._pause = threading.Event()
        self._writer, self._reader = dialect.engines(url, limits, clock)
        self._open: Turnstile = OpenTurnstile(chance)
        self._turnstile = FileTurnstile(self.file, clock=clock, chance=chance) if self.file else self._open

    @classmethod
    def open(
        cls,
        url: str,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        turned: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Database:
        """Open the store at `url`; nothing is created and no connection is made yet.

        `turned` makes PostgreSQL take the time from `clock` too (tests). Raises UsageError for a URL that names no
        known store.
        """
        parsed = parse_url(url)
        dialect: Dialect = TurnedPostgresql() if turned else Postgresql()
        if parsed.drivername == "sqlite":
            dialect = Sqlite()
        return cls(
            parsed,
            dialect,
            clock=clock or SystemClock(),
            chance=chance or SystemChance(),
            limits=limits,
        )

    def unhurried(self) -> Database:
        """Open the same store without limits of time, for steps that must not be cut off (migrations)."""
        return Database(self.url, self._dialect, clock=self._clock, chance=self._chance, limits=NO_LIMITS)

    @property
    def shown(self) -> str:
        """The store's URL as people may see it."""
        return shown_url(self.url)

    @property
    def file(self) -> Path | None:
        """The file of an SQLite store; None on PostgreSQL."""
        return Path(str(self.url.database)) if self._dialect.has_one_writer else None

    @property
    def is_sqlite(self) -> bool:
        """Whether the store is the embedded one, of one machine."""
        return self._dialect.has_one_writer

    @property
    def boot_id(self) -> str | None:
        """What the lease clock counts from, where it can begin anew."""
        return self._dialect.boot_id()

    @property
    def engine(self) -> Engine:
        """The writing engine, for migrations."""
        return self._writer

    def tx(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in one writing transaction and commit it; `fn` may run again after a passing fault.

        Raises StoreUnavailableError when the store cannot be reached, stays busy for 30 s or does not answer in time;
        whether the transaction was committed is then unknown, unless it is read back.
        """
        if not self._dialect.has_one_writer:
            return self._repeated(fn, self._writer, self._open)
        with self._writing:
            try:
                return self._repeated(fn, self._writer, self._turnstile)
            finally:
                self._turnstile.leave()

    def read(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in a reading transaction; on SQLite it sees one snapshot and blocks no writer."""
        return self._repeated(fn, self._reader, self._open)

    def hint(self) -> None:
        """Tell idle workers that something became claimable; failing to is no harm: they poll."""
        with contextlib.suppress(DBAPIError, PoolTimeoutError):
            self._dialect.hint(self._writer)

    def hints(self) -> Hints:
        """Begin to hear of such hints, on a connection of its own. Raises what the driver raises."""
        return self._dialect.hints(self._reader)

    def close(self) -> None:
        """Close every connection."""
        self._writer.dispose()
        self._reader.dispose()

    def _repeated(self, fn: Callable[[Tx], T], engine: Engine, turnstile: Turnstile) -> T:
        give_up_at = self._clock.elapsed() + _BUSY_FOR_SECONDS
        repeats = 0
        while True:
            repeats += 1
            turnstile.enter()
            try:
                with engine.begin() as connection:
                    turnstile.leave()
                    return fn(Tx(connection, self._now, self._lease_now, self._dialect, self._built))
            except KeyTakenError:
                if repeats >= _KEY_REPEATS:
                    raise
            except PoolTimeoutError as fault:
                raise StoreUnavailableError(f"every connection to the store {self.shown} is in use") from fault
            except DBAPIError as fault:
                if self._clock.elapsed() >= give_up_at or not self._dialect.may_pass(fault, repeats):
                    raise self._explained(fault) from fault
            self._clock.wait(self._pause, turnstile.pause())

    def _explained(self, fault: DBAPIError) -> Exception:
        if self._dialect.is_busy(fault):
            return StoreUnavailableError(
                f"the store {self.shown} was locked for {_BUSY_FOR_SECONDS:g} s: is a process stopped while it writes?"
            )
        is_no_store = type(fault) is DatabaseError  # SQLite says so of a file that is none, or that is damaged
        if fault.connection_invalidated or is_no_store or isinstance(fault, (OperationalError, InterfaceError)):
            reason = str(fault.orig).strip() or type(fault.orig).__name__
            what = "did not answer in time" if self._dialect.is_late(fault) else "cannot be used"
            return StoreUnavailableError(f"the store {self.shown} {what}: {reason.splitlines()[0]}")
        return fault


def parse_url(url: str) -> URL:
    """Read a store URL; `postgres://` and `postgresql://` mean the psycopg driver. Raises UsageError."""
    try:
        parsed = make_url(url)
        if password := parsed.query.get("password"):  # where no text that shows the URL would hide it
            parsed = parsed.set(password=str(password)).difference_update_query(["password"])
        if parsed.drivername in {"postgres", "postgresql"}:
            parsed = parsed.set(drivername="postgresql+psycopg")
    except (ArgumentError, NoSuchModuleError, ValueError) as fault:
        raise UsageError(f"{_without_secrets(url)!r} is no store: write {_FORMS}") from fault
    if parsed.drivername not in {"sqlite", "postgresql+psycopg"}:
        raise UsageError(f"the store {shown_url(parsed)!r} is not supported: write {_FORMS}")
    if parsed.drivername == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise UsageError("an SQLite store needs a file: write sqlite:///path/to/file.db")
    return parsed


def shown_url(url: URL) -> str:
    """Give a store's URL without its passwords, that of the key of a TLS certificate too."""
    hidden = {name: "***" for name in url.query if "password" in name.casefold()}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _without_secrets(url: str) -> str:
    """Give what may be repeated of a URL that cannot be read: no part in which a password may stand."""
    _before, at, after = url.rpartition("@")
    return (f"…@{after}" if at else url).partition("?")[0]


def in_states(column: ColumnElement[str], states: Iterable[str]) -> ColumnElement[bool]:
    """Compare with literal words, not bound values: only so do both planners see that a partial index fits."""
    return column.in_([literal_column(f"'{state}'") for state in sorted(states)])


def _read_clock(tx: Tx) -> Executable:
    return select(tx.now)
