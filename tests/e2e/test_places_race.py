"""Sixteen claimers, three places: nobody ever holds a fourth, whoever asks at the same moment (C1)."""

import threading
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from queue import Empty
from typing import Final

import pytest
from sqlalchemy import func, select

from reconciler.model.run import RunState
from reconciler.store import leader, places
from reconciler.store.database import Database, Tx
from reconciler.store.tables import runs
from tests.e2e.crowd import SPAWN, Crowd
from tests.e2e.hands import JOB, Hands, contested_store
from tests.store.cast import TTL_US, Store, job, queue

ROUNDS: Final = 60
PROCESSES: Final = 4
CLAIMERS_EACH: Final = 4
CLAIMERS: Final = PROCESSES * CLAIMERS_EACH
PLACES: Final = 3
RUNS: Final = 600
SECONDS: Final = 100.0

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS + 5)]


@pytest.mark.parametrize("cap", ["queue", "everything"])
def test_of_sixteen_claimers_released_at_once_three_runs_are_held_each_round(
    store_url: str, tmp_path: Path, cap: str
) -> None:
    """C1: each round all ask for two; who got some gives them back one way or another before the next."""
    gate = SPAWN.Barrier(CLAIMERS + 1)
    answers: Queue[int | str] = SPAWN.Queue()

    with contested_store(store_url) as store, Crowd(tmp_path, seconds=SECONDS) as crowd:
        _cap(store, cap)
        for _ in range(CLAIMERS * 2):
            store.trigger(JOB)
        for number in range(PROCESSES):
            crowd.start(f"claimers-{number}", run_claimers, store_url, number, gate, answers)
        granted = [_play_round(crowd, gate, answers) for _ in range(ROUNDS)]
        crowd.await_end()

    assert granted == [PLACES] * ROUNDS


@pytest.mark.parametrize("cap", ["queue", "everything"])
def test_whoever_looks_while_many_claim_and_finish_never_sees_more_than_three_held(
    store_url: str, tmp_path: Path, cap: str
) -> None:
    """C1, at every commit that somebody saw."""
    with contested_store(store_url) as store, Crowd(tmp_path, seconds=SECONDS) as crowd:
        _cap(store, cap)
        for _ in range(RUNS // 2):
            store.trigger(JOB)
        for number in range(PROCESSES):
            crowd.start(f"drainers-{number}", run_drainers, store_url, number)
        seen: list[int] = []
        crowd.await_that("the store to be empty", lambda: _looked(store.database, seen) == 0)
        crowd.await_end()

    assert max(seen) == PLACES, "it was no race if the places were never all taken"


def _cap(store: Store, cap: str) -> None:
    term = store.database.tx(lambda tx: leader.acquire(tx, "committer", ttl_us=TTL_US))
    assert term is not None
    store.term = term
    if cap == "queue":
        store.apply(queue("narrow", max=PLACES), job(JOB, queue="narrow"))
    else:
        store.database.tx(lambda tx: places.set_cap(tx, term, PLACES))


def _looked(database: Database, seen: list[int]) -> int:
    """Note how many runs are held; give how many there are."""

    def look(tx: Tx) -> tuple[int, int]:
        held = select(func.count()).where(runs.c.state == RunState.RUNNING)
        return tx.execute(held).scalar_one(), tx.execute(select(func.count(runs.c.id))).scalar_one()

    held, left = database.read(look)
    seen.append(held)
    return left


def _play_round(crowd: Crowd, gate: Barrier, answers: "Queue[int | str]") -> int:
    """Open the gate, count what everybody got, and open it again for the winners to give it back."""
    crowd.pass_gate(gate)
    try:
        heard = [answers.get(timeout=crowd.seconds_left) for _ in range(CLAIMERS)]
    except Empty:
        pytest.fail(crowd.told("a claimer did not answer"), pytrace=False)
    crowd.pass_gate(gate)
    errors = [answer for answer in heard if isinstance(answer, str)]
    assert not errors, crowd.told(f"a loser gets an empty list, not an error: {errors}")
    return sum(answer for answer in heard if isinstance(answer, int))


def run_claimers(store_url: str, number: int, gate: Barrier, answers: "Queue[int | str]") -> None:
    """One process: several claimers, each with a connection of its own."""
    names = [f"claimer-{number}-{each}" for each in range(CLAIMERS_EACH)]
    threads = [threading.Thread(target=_claim_each_round, args=(store_url, name, gate, answers)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _claim_each_round(store_url: str, name: str, gate: Barrier, answers: "Queue[int | str]") -> None:
    hands = Hands.join(store_url, name)
    for _ in range(ROUNDS):
        gate.wait(SECONDS)
        try:
            won = hands.claim(limit=2)
            answers.put(len(won))
        except Exception as fault:  # noqa: BLE001 - the test fails with it
            won = []
            answers.put(repr(fault))
        gate.wait(SECONDS)
        hands.hand_back(won)
    hands.leave()


def run_drainers(store_url: str, number: int) -> None:
    """One process: a few claimers that claim and finish until nothing is left."""
    threads = [threading.Thread(target=_drain, args=(store_url, f"drainer-{number}-{each}")) for each in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _drain(store_url: str, name: str) -> None:
    hands = Hands.join(store_url, name)
    while hands.database.read(lambda tx: tx.execute(select(runs.c.id).limit(1)).first()) is not None:
        hands.succeed(hands.claim(limit=2))
    hands.leave()
