"""What the two engines do differently, as one protocol: connections, the clock, lists of values, faults that pass.

`sqlite.py` and `postgresql.py` are the only modules that know one engine from the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Select,
    Table,
    Text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from reconciler.clock import Clock
from reconciler.store.hints import Hints

Columns = Mapping[str, type]
"""Names and types (int, str, bool) of the columns of a list of values."""
Rows = Sequence[Sequence[Any]]
"""One sequence per row, in the order of the columns."""


KINDS: Final[Mapping[type, TypeEngine[Any]]] = {int: BigInteger(), str: Text(), bool: Boolean()}
"""The database's types of a list's columns."""
MAX_REPEATS: Final = 8


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


def as_json(rows: Rows) -> str:
    """Pack rows into one parameter, of constant SQL text whatever their number."""
    return json.dumps([list(row) for row in rows])
