"""A migrated store on each database, with time that is turned.

Each is migrated once, and every test finds it as it was then: SQLite by a copy of the file, PostgreSQL by emptying the
tables (a new database costs 50 ms or more, nearly all of it the syncing of 300 new files). The `Database` objects live
on, since each keeps the statements that it has compiled.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, text, update

from reconciler.engine.zonedata import PLANNED_WITH
from reconciler.store import schema
from reconciler.store.database import Database
from reconciler.store.tables import leader, meta, metadata
from reconciler.telemetry import Event, subscribe
from tests.postgres import PostgresServer
from tests.store.cast import Store
from tests.turned import START_US, TurnedClock


@pytest.fixture(scope="session")
def turned_clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def clock(turned_clock: TurnedClock) -> TurnedClock:
    turned_clock.at_us, turned_clock.elapsed_seconds = START_US, 1000.0
    return turned_clock


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory, turned_clock: TurnedClock) -> Iterator[Database]:
    file = tmp_path_factory.mktemp("store") / "store.db"
    database = Database.open(f"sqlite:///{file}", clock=turned_clock, turned=True)
    schema.upgrade(database)
    database.close()  # the last connection takes the write-ahead log with it
    shutil.copy(file, file.with_suffix(".migrated"))
    yield database
    database.close()


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer, turned_clock: TurnedClock) -> Iterator[Database]:
    url = postgres_server.create_database()
    database = Database.open(url, clock=turned_clock, turned=True)
    schema.upgrade(database)
    yield database
    database.close()
    postgres_server.drop_database(url)


@pytest.fixture
def sqlite_store(migrated_sqlite: Database, clock: TurnedClock) -> Iterator[Store]:
    file = Path(str(migrated_sqlite.file))
    for left in file.parent.glob(f"{file.name}*"):
        left.unlink()
    shutil.copy(file.with_suffix(".migrated"), file)
    yield Store(migrated_sqlite, clock)
    migrated_sqlite.close()


@pytest.fixture
def postgres_store(migrated_postgres: Database, clock: TurnedClock) -> Iterator[Store]:
    yield Store(migrated_postgres, clock)
    migrated_postgres.close()
    with migrated_postgres.engine.begin() as connection:
        _empty(connection)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Store:
    """A test that takes it runs once on each kind."""
    made: Store = request.getfixturevalue({"sqlite": "sqlite_store", "postgresql": "postgres_store"}[request.param])
    return made


@pytest.fixture
def empty_database(store_url: str) -> Iterator[Database]:
    """A store of the test's own, on real time, in which nothing was ever made."""
    database = Database.open(store_url)
    yield database
    database.close()


def _empty(connection: Connection) -> None:
    connection.execute(text("SET LOCAL lock_timeout = '5s'"))  # rather fail than wait for what a test left behind
    for table in reversed(metadata.sorted_tables):
        if table not in (leader, meta):
            connection.execute(delete(table))
    connection.execute(delete(meta).where(meta.c.key == PLANNED_WITH))
    connection.execute(update(leader).values(term=0, owner="", acquired_us=0, expires_us=0))


@pytest.fixture
def events() -> Iterator[list[Event]]:
    """Everything that is emitted during a test."""
    heard: list[Event] = []
    end = subscribe(heard.append)
    yield heard
    end()
