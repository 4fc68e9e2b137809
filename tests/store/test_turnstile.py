"""Writers of one SQLite file: who has waited for long comes first, and nobody waits for one that is gone or stopped."""

import fcntl
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import select, text

from reconciler.clock import SystemChance
from reconciler.store import database as door
from reconciler.store.database import Database
from reconciler.store.turnstile import FileTurnstile, OpenTurnstile
from tests.traps import both_ways
from tests.turned import TurnedClock
from tests.worker.waiting import until

pytestmark = pytest.mark.timeout(60)

ROUNDS: Final = 10
CLOSES_IT: Final = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("closed", flush=True)
sys.stdin.readline()
"""


def turnstile(store: Path, clock: TurnedClock) -> FileTurnstile:
    return FileTurnstile(store, clock=clock, chance=SystemChance())


def closed(store: Path, clock: TurnedClock) -> FileTurnstile:
    """One whose owner has waited for long."""
    own = turnstile(store, clock)
    own.enter()
    clock.turn(0.2)
    own.enter()
    return own


def is_closed(store: Path) -> bool:
    with store.with_name(f"{store.name}-turn").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@both_ways
def test_who_has_waited_for_long_writes_before_those_who_come_then(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Seen with 8 writers without a pause: one waited for 1.8 s, and a leader could not renew a term of 3 s.

    Mend: `Database.tx` passes the turnstile before it looks for the write lock.
    """
    if not is_mended:
        monkeypatch.setattr(door, "FileTurnstile", lambda *_any, **_named: OpenTurnstile(SystemChance()))
    first, later = Database.open(sqlite_url), Database.open(sqlite_url)
    file = Path(str(first.file))
    first.tx(lambda tx: tx.execute(text("CREATE TABLE made (id INTEGER PRIMARY KEY, writer TEXT)")))

    def write(database: Database, name: str) -> threading.Thread:
        step = text("INSERT INTO made (writer) VALUES (:name)")
        thread = threading.Thread(target=database.tx, args=(lambda tx: tx.execute(step, {"name": name}),))
        thread.start()
        return thread

    for _ in range(ROUNDS):
        with closing(sqlite3.connect(file, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            threads = [write(first, "first")]
            if is_mended:
                until(lambda: is_closed(file))
            threads.append(write(later, "later"))
            threading.Event().wait(0.2)
            holder.execute("COMMIT")
        for thread in threads:
            thread.join()
    made = list(first.read(lambda tx: tx.execute(select(text("writer FROM made ORDER BY id")))).scalars())
    first.close()
    later.close()

    assert made == ["first", "later"] * ROUNDS


def test_it_is_open_until_somebody_has_waited_for_long(tmp_path: Path) -> None:
    store, clock = tmp_path / "store.db", TurnedClock()
    waiting = turnstile(store, clock)
    waiting.enter()
    began = clock.elapsed()
    turnstile(store, clock).enter()
    assert clock.elapsed() == began, "nobody is held back"

    clock.turn(0.2)
    waiting.enter()
    assert is_closed(store)
    waiting.leave()
    assert not is_closed(store)


def test_who_finds_it_closed_passes_by_after_a_second(tmp_path: Path) -> None:
    """The other process may be stopped."""
    store, clock = tmp_path / "store.db", TurnedClock()
    other = closed(store, clock)
    began = clock.elapsed()

    turnstile(store, clock).enter()

    assert 1.0 <= clock.elapsed() - began < 1.1
    other.leave()


def test_that_of_a_process_that_died_is_open(tmp_path: Path) -> None:
    store, clock = tmp_path / "store.db", TurnedClock()
    argv = [sys.executable, "-c", CLOSES_IT, f"{store}-turn"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"closed\n"
        assert is_closed(store)
        other.kill()
    began = clock.elapsed()

    turnstile(store, clock).enter()

    assert clock.elapsed() == began


def test_where_there_can_be_no_such_file_writers_do_without(tmp_path: Path) -> None:
    clock = TurnedClock()
    began = clock.elapsed()
    without = closed(tmp_path / "nowhere" / "store.db", clock)
    without.leave()

    assert clock.elapsed() == began + 0.2


def test_a_database_that_is_forgotten_leaves_no_file_open(sqlite_url: str) -> None:
    database = Database.open(sqlite_url)
    ours = Path(f"{database.file}-turn").resolve()

    def opened() -> list[Path]:
        return [each for each in Path("/proc/self/fd").iterdir() if each.resolve() == ours]

    database.tx(lambda tx: tx.now_us())
    assert len(opened()) == 1
    database.close()
    del database

    assert not opened()
