"""Eight processes write into one SQLite file as fast as they can: each gets its turn."""

import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import text

from reconciler.store.database import Database
from tests.e2e.crowd import SPAWN, Crowd

WRITERS: Final = 8
WRITE_FOR_SECONDS: Final = 3.0
FEWEST: Final = 15
SECONDS: Final = 50.0

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS + 10)]


def test_of_eight_writers_none_is_starved(sqlite_url: str, tmp_path: Path) -> None:
    """Trap: "8 SQLite writers at FULL, built-in busy handler: one process got 1 commit in 4 s".

    Mend: `Sqlite.engines` switches that handler off, and `Database._repeated` asks again after a pause by chance.
    """
    gate, commits = SPAWN.Barrier(WRITERS), SPAWN.Queue()
    database = Database.open(sqlite_url)
    database.tx(lambda tx: tx.execute(text("CREATE TABLE made (writer INTEGER)")))

    with Crowd(tmp_path, seconds=SECONDS) as crowd:
        for number in range(WRITERS):
            crowd.start(f"writer-{number}", write, sqlite_url, gate, commits)
        each = sorted(commits.get(timeout=crowd.seconds_left) for _ in range(WRITERS))
        crowd.await_end()
    made = database.read(lambda tx: tx.execute(text("SELECT count(*) FROM made")).scalar_one())
    database.close()

    assert made == sum(each)
    assert each[0] >= FEWEST, f"commits of each: {each}"


def write(url: str, gate: Barrier, commits: "Queue[int]") -> None:
    database, number = Database.open(url), 0
    gate.wait(SECONDS)
    until = time.monotonic() + WRITE_FOR_SECONDS
    while time.monotonic() < until:
        database.tx(lambda tx: tx.execute(text("INSERT INTO made VALUES (1)")))
        number += 1
    commits.put(number)
    database.close()
