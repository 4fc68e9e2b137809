"""Several processes drain one store beside a busy leader: every run is executed once, and nobody gets an error."""

import os
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing import current_process
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import func, select

from reconciler.model.run import RunState
from reconciler.store import runs
from reconciler.store.database import Database, Tx
from reconciler.store.tables import attempts, run_history
from tests.e2e.crowd import SPAWN, Crowd
from tests.e2e.hands import JOB, Hands, contested_store, lead_until
from tests.store.cast import Store

SECONDS: Final = 60.0
READS_FOR_SECONDS: Final = 10.0
BATCH: Final = 25
MIB: Final = 1024 * 1024

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS + 10)]


def test_four_processes_drain_two_thousand_runs_and_each_is_accepted_once(store_url: str, tmp_path: Path) -> None:
    """R2, R4: nothing is lost, nothing is accepted twice."""
    workers, total, over = 4, 2000, SPAWN.Event()
    gate = SPAWN.Barrier(workers + 1)

    with contested_store(store_url) as store, Crowd(tmp_path, seconds=SECONDS) as crowd:
        crowd.start("leader", lead_until, store_url, over)
        for number in range(workers):
            crowd.start(f"worker-{number}", work_until, store_url, gate, over, tmp_path)
        crowd.pass_gate(gate)
        made = [run_id for _ in range(total // 100) for run_id in _make(store, 100)]
        crowd.await_that("every run's end", lambda: _ended(store.database) == total)
        over.set()
        crowd.await_end()
        _assert_each_ran_once(store, made, tmp_path)
        shares = Counter(run.node for run in store.runs())

    assert len(shares) > 1, f"it was no race: {shares}"
    assert not crowd.said()


@pytest.mark.case("LSE-09")
def test_a_long_reader_stops_no_writer_of_an_sqlite_file(sqlite_url: str, tmp_path: Path) -> None:
    """Eight workers and a leader write while a reader holds its snapshot for ten seconds.

    Nothing of the write-ahead log can be used again meanwhile: it was seen to grow to 5 MiB (4 MiB without a reader).
    """
    workers, total, over, reading = 8, 500, SPAWN.Event(), SPAWN.Event()
    gate = SPAWN.Barrier(workers + 1)
    log = Path(f"{sqlite_url.removeprefix('sqlite:///')}-wal")
    made: list[int] = []

    with contested_store(sqlite_url) as store, Crowd(tmp_path, seconds=SECONDS) as crowd:
        crowd.start("leader", lead_until, sqlite_url, over)
        for number in range(workers):
            crowd.start(f"worker-{number}", work_until, sqlite_url, gate, over, tmp_path)
        crowd.pass_gate(gate)
        crowd.start("reader", read_for_long, sqlite_url, reading)
        crowd.await_that("the reader", reading.is_set)
        ended_meanwhile = 0
        while reading.is_set():
            made += _make(store, min(5, total - len(made)))
            time.sleep(0.05)
            ended_meanwhile = _ended(store.database)
        made += _make(store, total - len(made))
        crowd.await_that("every run's end", lambda: _ended(store.database) == total)
        grown_to = log.stat().st_size
        _write_much(sqlite_url)
        grown_on_to = log.stat().st_size
        over.set()
        crowd.await_end()
        _assert_each_ran_once(store, made, tmp_path)

    assert ended_meanwhile >= total / 2, "the writers waited for the reader"
    assert grown_to <= 16 * MIB, "the log grew without bound"
    assert grown_on_to <= grown_to + MIB, "the log is not used again once the reader is gone"
    assert not crowd.said(), "not one 'database is locked', nor anything else, reached a log"


def work_until(url: str, gate: Barrier, over: Event, folder: Path) -> None:
    """A worker whose job is one line in a file; it begins when all are there."""
    hands = Hands.join(url, current_process().name)
    gate.wait(SECONDS)
    effects = os.open(folder / "effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    accepted = os.open(folder / "accepted", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while not over.is_set():
        held = hands.claim(BATCH)
        for claim in held:
            os.write(effects, f"{claim.run_id}\n".encode())
        for run_id in hands.succeed(held) if held else ():
            os.write(accepted, f"{run_id}\n".encode())
        if not held:
            over.wait(0.01)
    hands.leave()


def read_for_long(url: str, reading: Event) -> None:
    database = Database.open(url)

    def look_twice(tx: Tx) -> None:
        before = tx.execute(select(func.count()).select_from(run_history)).scalar_one()
        reading.set()
        time.sleep(READS_FOR_SECONDS)
        after = tx.execute(select(func.count()).select_from(run_history)).scalar_one()
        assert before == after, "a reader sees one snapshot"

    database.read(look_twice)
    reading.clear()
    database.close()


def _write_much(url: str) -> None:
    """About as much as the log holds by now."""
    hands = Hands.join(url, "talkative")
    for _ in range(500):
        hands.renew()
    hands.leave()


def _make(store: Store, number: int) -> list[int]:
    return store.database.tx(lambda tx: [runs.create(tx, JOB, actor="tests")[0] for _ in range(number)])


def _ended(database: Database) -> int:
    return database.read(lambda tx: int(tx.execute(select(func.count()).select_from(run_history)).scalar_one()))


def _assert_each_ran_once(store: Store, made: Sequence[int], folder: Path) -> None:
    found = store.runs()
    assert {run.id: run.state for run in found} == dict.fromkeys(made, RunState.SUCCEEDED)
    assert {(run.attempt, run.fence) for run in found} == {(1, 1)}
    holds = store.database.read(lambda tx: list(tx.execute(select(attempts.c.run_id)).scalars()))
    assert sorted(holds) == sorted(made), "one attempt each"
    for what in ("effects", "accepted"):
        assert sorted(map(int, (folder / what).read_text().split())) == sorted(made), what
