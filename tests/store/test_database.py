"""`Database.tx`: a step runs whole or not at all, again after a passing fault, or says what is wrong with the store."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from reconciler.clock import SystemClock
from reconciler.errors import KeyTakenError, StoreUnavailableError
from reconciler.store.database import Database, Tx
from tests.store.cast import Store
from tests.turned import TurnedClock

DEADLINE_SECONDS: Final = 30

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def counters(empty_database: Database) -> Database:
    """A store with two counters, `a` and `b`, at 0."""
    with empty_database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO counters VALUES ('a', 0), ('b', 0)"))
    return empty_database


def add_one(tx: Tx, name: str) -> None:
    tx.execute(text("UPDATE counters SET n = n + 1 WHERE name = :name"), {"name": name})


def count(tx: Tx, name: str) -> int:
    return int(tx.execute(text("SELECT n FROM counters WHERE name = :name"), {"name": name}).scalar_one())


def counted(database: Database, name: str) -> int:
    return database.read(lambda tx: count(tx, name))


class TestWholeOrNotAtAll:
    def test_a_fault_inside_a_step_undoes_all_of_it(self, counters: Database) -> None:
        def step(tx: Tx) -> None:
            add_one(tx, "a")
            raise RuntimeError("half way")

        with pytest.raises(RuntimeError, match="half way"):
            counters.tx(step)

        assert counted(counters, "a") == 0

    def test_a_fault_that_will_not_pass_is_raised_at_once(self, counters: Database) -> None:
        calls: list[None] = []

        def step(tx: Tx) -> None:
            calls.append(None)
            tx.execute(text("INSERT INTO counters VALUES ('a', 0)"))

        with pytest.raises(IntegrityError):
            counters.tx(step)

        assert len(calls) == 1

    def test_a_step_that_lost_a_key_to_another_runs_again_with_nothing_left_of_the_first_time(
        self, counters: Database
    ) -> None:
        calls: list[None] = []

        def step(tx: Tx) -> None:
            add_one(tx, "a")
            calls.append(None)
            if len(calls) == 1:
                raise KeyTakenError("somebody else was quicker")

        counters.tx(step)

        assert (len(calls), counted(counters, "a")) == (2, 1)


class TestTime:
    def test_the_stores_clock_goes_on_inside_a_transaction(self, store: Store) -> None:
        """Trap: `now()` of PostgreSQL stands still from the transaction's start."""

        def step(tx: Tx) -> tuple[int, int]:
            first = tx.now_us()
            store.clock.turn(5)
            return first, tx.now_us()

        first, second = store.database.tx(step)

        assert second - first == 5_000_000

    def test_postgresql_gives_its_own_time_and_it_goes_on(self, postgres_url: str) -> None:
        """Nodes need not agree on the time: this node's clock stands in 2026 and is not asked."""

        def step(tx: Tx) -> tuple[int, int, int]:
            first = tx.now_us()
            tx.execute(text("SELECT pg_sleep(0.05)"))
            began = tx.execute(text("SELECT CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)")).scalar_one()
            return began, first, tx.now_us()

        node_clock = TurnedClock(at_us=0)
        with opened(postgres_url, node_clock) as database:
            began, first, second = database.tx(step)

        assert 0 < began <= first <= second - 50_000


class TestOneWriterOnSqlite:
    def test_a_step_waits_for_another_process_that_writes(self, sqlite_url: str) -> None:
        clock = WaitsThen(20)
        with opened(sqlite_url, clock) as database, _writing_process(database) as other:
            clock.act = other.let_go

            database.tx(lambda tx: tx.execute(text("CREATE TABLE made (n INTEGER)")))

            assert clock.waits == 20

    def test_a_reader_waits_for_nobody(self, sqlite_url: str) -> None:
        clock = WaitsThen(0)
        with opened(sqlite_url, clock) as database, _writing_process(database):
            assert database.read(lambda tx: tx.execute(text("SELECT 1")).scalar_one()) == 1

        assert clock.waits == 0

    def test_a_store_that_stays_locked_is_unavailable_and_the_text_says_why(self, sqlite_url: str) -> None:
        with (
            opened(sqlite_url, TurnedClock()) as database,
            _writing_process(database),
            pytest.raises(StoreUnavailableError, match=r"was locked for 30 s: is a process stopped while it writes\?"),
        ):
            database.tx(lambda tx: tx.now_us())

    def test_what_a_step_read_still_holds_when_it_writes(self, sqlite_url: str) -> None:
        """Trap: a read transaction that turns writer fails at once, or overwrites what others wrote meanwhile."""
        threads, each_adds = 4, 25
        gate = threading.Barrier(threads)
        calls: list[None] = []

        def read_then_write(tx: Tx) -> None:
            calls.append(None)
            n = count(tx, "a")
            tx.execute(text("UPDATE counters SET n = :n WHERE name = 'a'"), {"n": n + 1})

        def add_up() -> None:
            with opened(sqlite_url) as own:
                gate.wait(DEADLINE_SECONDS)
                for _ in range(each_adds):
                    own.tx(read_then_write)

        with opened(sqlite_url) as database:
            database.tx(lambda tx: tx.execute(text("CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER)")))
            database.tx(lambda tx: tx.execute(text("INSERT INTO counters VALUES ('a', 0)")))
            with ThreadPoolExecutor(threads) as pool:
                for future in [pool.submit(add_up) for _ in range(threads)]:
                    future.result(DEADLINE_SECONDS)

            assert counted(database, "a") == threads * each_adds
        assert len(calls) == threads * each_adds, "the write lock is taken at the start, so no step ran in vain"


class TestPostgresql:
    @pytest.fixture
    def store_url(self, postgres_url: str) -> str:
        return postgres_url

    def test_of_two_steps_in_a_deadlock_both_end_well(self, counters: Database) -> None:
        gate = threading.Barrier(2)
        calls: list[str] = []

        def add_to_both(first: str, second: str) -> None:
            def step(tx: Tx) -> None:
                calls.append(first)
                add_one(tx, first)
                if len(calls) <= 2:
                    gate.wait(DEADLINE_SECONDS)
                add_one(tx, second)

            counters.tx(step)

        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(add_to_both, "a", "b"), pool.submit(add_to_both, "b", "a")]:
                future.result(DEADLINE_SECONDS)

        assert len(calls) == 3, "the victim ran again"
        assert (counted(counters, "a"), counted(counters, "b")) == (2, 2)

    def test_a_step_that_could_not_be_serialised_runs_again(self, counters: Database) -> None:
        calls: list[None] = []

        def step(tx: Tx) -> None:
            add_one(tx, "a")
            calls.append(None)
            if len(calls) == 1:
                tx.execute(text("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$"))

        counters.tx(step)

        assert (len(calls), counted(counters, "a")) == (2, 1)

    def test_a_step_that_can_never_be_serialised_is_given_up(self, counters: Database) -> None:
        calls: list[None] = []

        def step(tx: Tx) -> None:
            calls.append(None)
            tx.execute(text("DO $$ BEGIN RAISE EXCEPTION 'never' USING ERRCODE = '40001'; END $$"))

        with pytest.raises(StoreUnavailableError, match="never"):
            counters.tx(step)

        assert 1 < len(calls) <= 10

    def test_transactions_are_read_committed_whatever_the_servers_default(self, counters: Database) -> None:
        name = counters.url.database
        with counters.engine.begin() as connection:
            connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"))
            connection.execute(text(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = 0"))
        counters.close()

        def shown(tx: Tx, setting: str) -> str:
            return str(tx.execute(text(f"SHOW {setting}")).scalar_one())

        assert counters.tx(lambda tx: shown(tx, "transaction_isolation")) == "read committed"
        assert counters.read(lambda tx: shown(tx, "transaction_isolation")) == "read committed"
        idle_for = counters.tx(lambda tx: shown(tx, "idle_in_transaction_session_timeout"))
        assert idle_for == "5s", "a leader that stalls inside a transaction must not block its successor"

    def test_a_connection_that_died_between_two_steps_is_replaced_in_silence(self, counters: Database) -> None:
        counters.tx(lambda tx: add_one(tx, "a"))
        _kill_backends(counters)

        counters.tx(lambda tx: add_one(tx, "a"))

        assert counted(counters, "a") == 2

    def test_a_connection_that_dies_inside_a_step_undoes_it_and_the_next_step_works(self, counters: Database) -> None:
        def step(tx: Tx) -> None:
            add_one(tx, "a")
            _kill_backends(counters)
            add_one(tx, "a")

        with pytest.raises(StoreUnavailableError, match="cannot be used"):
            counters.tx(step)

        assert counted(counters, "a") == 0


class WaitsThen(TurnedClock):
    """A clock that counts how often somebody waits on it, and acts at the given time."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.waits = 0
        self.act: Callable[[], object] = bool

    def wait(self, stop: threading.Event, seconds: float) -> bool:  # noqa: ARG002 - it does not wait
        self.waits += 1
        if self.waits == self.at:
            self.act()
        return stop.is_set()


class _Writing:
    """Another process that holds SQLite's write lock."""

    HOLD: Final = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
print("let go", flush=True)
"""

    def __init__(self, file: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.HOLD, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._hear() == "held\n"

    def let_go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self._hear() == "let go\n"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_SECONDS)

    def _hear(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()


@contextmanager
def _writing_process(database: Database) -> Iterator[_Writing]:
    database.tx(lambda tx: tx.now_us())  # the file is there, and in WAL mode
    assert database.file
    other = _Writing(database.file)
    try:
        yield other
    finally:
        other.end()


@contextmanager
def opened(url: str, clock: TurnedClock | SystemClock | None = None) -> Iterator[Database]:
    database = Database.open(url, clock=clock)
    try:
        yield database
    finally:
        database.close()


def _kill_backends(database: Database) -> None:
    """End every connection to this database, as a restart of the server would."""
    admin = Database.open(database.url.set(database="postgres").render_as_string(hide_password=False))
    try:
        admin.tx(
            lambda tx: tx.execute(
                text("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = :name"),
                {"name": database.url.database},
            ).all()
        )
    finally:
        admin.close()
