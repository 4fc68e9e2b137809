"""What the scheduler deals with: processes, their threads, and their transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto

from greenlet import greenlet
from sqlalchemy.exc import OperationalError

from tests.protocol.simulation.plan import Fault


class Point(IntEnum):
    """Where a thread stands when it is not its turn."""

    WAIT = auto()
    BEGIN = auto()
    STATEMENT = auto()
    COMMIT = auto()
    COMMITTED = auto()
    """The store has it, the caller does not know yet."""


class StoreFault(OperationalError):
    """What a driver raises when the store fails it; no fault that passes by itself."""

    def __init__(self, reason: str) -> None:
        """Word it as SQLite does."""
        super().__init__(None, None, sqlite3.OperationalError(reason))


@dataclass(slots=True)
class Transaction:
    """A writing transaction, and as what its thread wrote. Instants are simulated elapsed microseconds."""

    number: int
    thread: str
    begun_us: int
    begun_wall_us: int
    term: int | None = None
    node_id: int | None = None
    reports: Mapping[int, int] = field(default_factory=dict)
    committed_us: int | None = None


@dataclass(slots=True, eq=False)
class Process:
    """A name under which threads run; `bodies` makes those of a fresh start, the first one named like the process."""

    name: str
    bodies: Callable[[Process], Sequence[tuple[str, Callable[[], None]]]]
    comes_back: bool = True
    starts: int = 0
    cut_until_us: int = 0
    frozen: list[tuple[int, int]] = field(default_factory=list)
    """When it stood still, from and until."""
    when_gone: list[Callable[[], None]] = field(default_factory=list)
    """What to note when this start of it is over: its jobs die with it."""


@dataclass(slots=True, eq=False)
class Thread:
    """A greenlet, when it wants its turn, and what it says of itself."""

    name: str
    process: Process
    greenlet: greenlet
    wake_us: int
    """When it wants its turn."""
    turn_us: int
    """When it may have it: later while it is held."""
    point: Point = Point.WAIT
    is_locked_out: bool = False
    fault: Fault | None = None
    changes_before: int = 0
    wrote: bool = False
    """Whether the transaction that it commits changed anything."""
    transaction: Transaction | None = None
    term: int | None = None
    node_id: int | None = None
    reports: Mapping[int, int] = field(default_factory=dict)
    """Run id -> fence of what it is about to report."""
