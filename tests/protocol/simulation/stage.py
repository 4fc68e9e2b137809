"""The stage: one SQLite file, a `Database` of its own for each thread, and the wires from both to the scheduler.

It lives on from seed to seed, since a `Database` keeps the statements that it compiled; between seeds the tables are
emptied. The file lies in memory where the machine offers that, and nothing is synced: the protocol is under test, not
the disk.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from sqlalchemy import event

from reconciler.clock import SECOND_US
from reconciler.store import schema
from reconciler.store.database import Database
from reconciler.store.tables import meta, metadata
from tests.protocol.simulation import witness
from tests.protocol.simulation.plan import chance_of
from tests.protocol.simulation.world import World

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder in memory, of which a private part is used
_SEQUENCE: Final = "sqlite_sequence"
_KEPT: Final = {"leader", meta.name}


class Seat:
    """What one thread acts with: its ports, and its door to the store."""

    def __init__(self, stage: Stage, name: str) -> None:
        """Take a seat; `begin` makes it ready for a seed."""
        self._stage = stage
        self._name = name
        self._chance = chance_of(0, name)
        self.database = Database.open(f"sqlite:///{stage.file}", clock=self, chance=self)
        stage.wire(self.database)

    def begin(self, start: int) -> None:
        """Draw other numbers for each seed and start of the thread."""
        self._chance = chance_of(self._stage.world.scenario.seed, f"{self._name}/{start}")

    def now_us(self) -> int:
        """Wall time."""
        return self._stage.world.wall_us()

    def elapsed(self) -> float:
        """Seconds that passed, whatever the wall shows."""
        return self._stage.world.elapsed_us / SECOND_US

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Let `Database` wait before it tries again; threads of the simulation sleep by the world itself."""
        self._stage.world.wait_for_store(seconds)
        return stop.is_set()

    def token(self) -> str:
        """Give an id."""
        return f"{self._chance.getrandbits(128):032x}"

    def fraction(self) -> float:
        """Give a number in [0, 1)."""
        return self._chance.random()

    def whole(self, lowest: int, highest: int) -> int:
        """Give a whole number, both bounds included."""
        return self._chance.randint(lowest, highest)


class Stage:
    """The store of a simulation. `world` is the one whose threads act."""

    world: World

    def __init__(self) -> None:
        """Make an empty store with its witness."""
        self._folder = Path(tempfile.mkdtemp(prefix="simulation-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self.file = self._folder / "store.db"
        self._images: dict[str | None, list[str]] = {}
        self._seats: dict[str, Seat] = {}
        fresh = Database.open(f"sqlite:///{self.file}")
        schema.upgrade(fresh)
        fresh.close()
        self.store = sqlite3.connect(self.file, isolation_level=None)
        """A connection outside the simulation, for the checker."""
        witness.install(self.store)
        self._connect(self.store)
        self._tables = [table.name for table in reversed(metadata.sorted_tables) if table.name not in _KEPT]

    def seat(self, name: str) -> Seat:
        """Give the seat of a thread."""
        if name not in self._seats:
            self._seats[name] = Seat(self, name)
        return self._seats[name]

    def begin(self, world: World, image: str | None = None) -> None:
        """Empty the store, ids included, for another seed; or give it what an image holds."""
        self.world = world
        empty = [f"DELETE FROM {name}" for name in (*self._tables, _SEQUENCE)]
        led_by_nobody = "UPDATE leader SET term = 0, owner = '', acquired_us = 0, expires_us = 0"
        for statement in ("BEGIN IMMEDIATE", *empty, led_by_nobody, "DELETE FROM shadow"):
            self.store.execute(statement)
        for table in self._images.get(image, ()):
            self.store.execute(f"INSERT INTO {table} SELECT * FROM {_image(image, table)}")
        self.store.execute("COMMIT")

    def has(self, image: str) -> bool:
        """Tell whether there is an image of that name."""
        return image in self._images

    def keep(self, image: str) -> None:
        """Keep what the store holds now."""
        filled = [table for table in (*self._tables, _SEQUENCE) if self._count(table)]
        for table in filled:
            self.store.execute(f"CREATE TABLE {_image(image, table)} AS SELECT * FROM {table}")
        self._images[image] = filled

    def _count(self, table: str) -> int:
        return int(self.store.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def close(self) -> None:
        """Remove it all."""
        for seat in self._seats.values():
            seat.database.close()
        self.store.close()
        shutil.rmtree(self._folder)

    def wire(self, database: Database) -> None:
        """Bring every statement and COMMIT of a database before the scheduler."""
        for engine in (database.engine, database._reader):  # noqa: SLF001 - nobody else listens to the reader
            event.listen(engine, "connect", lambda connection, _record: self._connect(connection))
            event.listen(engine, "before_cursor_execute", self._before_statement)
            event.listen(engine, "rollback", lambda _connection: self.world.on_rollback())
        event.listen(database.engine, "commit", self._on_commit)

    def _connect(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA synchronous=OFF")
        # A connection outlives a seed, and with it the world that this speaks of.
        connection.create_function("sim_stamp", 0, lambda: self.world.stamp())  # noqa: PLW0108

    def _before_statement(self, connection: Any, _cursor: Any, text: str, *_rest: Any) -> None:
        self.world.on_statement(text, connection.connection.driver_connection)

    def _on_commit(self, connection: Any) -> None:
        self.world.on_commit(connection.connection.driver_connection)


def _image(name: str | None, table: str) -> str:
    return f"image_{name}_{table}"
