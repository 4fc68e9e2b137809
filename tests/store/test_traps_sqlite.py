"""Traps seen on SQLite 3.40, one test per row of the design's table; those of many processes are in tests/e2e."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest
from sqlalchemy import BigInteger, Connection, literal_column, select, text

from reconciler.store import database as door
from reconciler.store.database import Database, Tx
from reconciler.store.sqlite import Sqlite
from tests.traps import both_ways
from tests.turned import TurnedClock
from tests.worker.waiting import until

pytestmark = pytest.mark.timeout(60)

HOLDS_THE_WRITE_LOCK: Final = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


@contextmanager
def opened(url: str, clock: TurnedClock | None = None) -> Iterator[Database]:
    database = Database.open(url, clock=clock)
    try:
        database.tx(lambda tx: tx.execute(text("CREATE TABLE made (n INTEGER)")))
        yield database
    finally:
        database.close()


def add(tx: Tx) -> None:
    tx.execute(text("INSERT INTO made VALUES (1)"))


def count(tx: Tx) -> int:
    return int(tx.execute(text("SELECT count(*) FROM made")).scalar_one())


@both_ways
def test_a_step_that_reads_first_holds_the_write_lock_already(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Trap: "a read transaction on SQLite that turns writer: `database is locked` at once".

    "The busy timeout does not cover it." Our own repeats would, by running the step again on what changed meanwhile.
    Mend: `Sqlite.engines` begins what may write with BEGIN IMMEDIATE.
    """
    if not is_mended:
        _begin_deferred(monkeypatch)
    with opened(sqlite_url) as database:
        other = sqlite3.connect(database.file or "", isolation_level=None, timeout=0)
        calls = []

        def step(tx: Tx) -> None:
            calls.append(count(tx))
            with suppress(sqlite3.OperationalError):  # it is locked, and that is right
                if len(calls) == 1:
                    other.execute("INSERT INTO made VALUES (2)")
            add(tx)

        database.tx(step)
        other.close()

    assert calls == [0], "what it read still holds, and it ran once"


@both_ways
def test_the_clock_of_the_store_is_a_port_and_no_function_of_sqlite(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Trap: "`unixepoch('now','subsec')` on SQLite 3.40: NULL, no error".

    Mend: `Sqlite.now` and `Sqlite.lease_now` bind what the clock port says.
    """
    if not is_mended:
        of_sqlite = literal_column("unixepoch('now','subsec') * 1000000", BigInteger())
        monkeypatch.setattr(Sqlite, "now", lambda _dialect, _clock: of_sqlite)
    clock = TurnedClock()
    with opened(sqlite_url, clock) as database:
        now_us = database.tx(lambda tx: tx.execute(select(tx.now)).scalar_one())

    assert now_us == clock.at_us


@both_ways
def test_a_process_that_is_stopped_while_it_writes_is_waited_for(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Trap: "SIGSTOP of a process that holds SQLite's write lock: every writer waits until it continues".

    "Bounds count from there."
    Mend: `Database._repeated` waits for 30 s, and then says why; readers wait for nobody.
    """
    if not is_mended:
        monkeypatch.setattr(door, "_BUSY_FOR_SECONDS", 0.05)
    with opened(sqlite_url) as database, _holder(database) as other, ThreadPoolExecutor(1) as pool:
        os.kill(other.pid, signal.SIGSTOP)
        step = pool.submit(database.tx, add)
        assert database.read(count) == 0
        with suppress(AssertionError):
            until(step.done, seconds=0.5)
        waits = not step.done()
        os.kill(other.pid, signal.SIGCONT)
        other.communicate(b"\n", timeout=20)
        took = until(step.done, seconds=20)

        assert waits
        assert took < 1
        assert database.read(count) == 1


@contextmanager
def _holder(database: Database) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process that holds the write lock until it hears something."""
    argv = [sys.executable, "-c", HOLDS_THE_WRITE_LOCK, str(database.file)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


def _begin_deferred(patch: pytest.MonkeyPatch) -> None:
    real = Connection.exec_driver_sql

    def deferred(connection: Connection, statement: str, *arguments: Any, **named: Any) -> Any:
        return real(connection, statement.replace("BEGIN IMMEDIATE", "BEGIN DEFERRED"), *arguments, **named)

    patch.setattr(Connection, "exec_driver_sql", deferred)
