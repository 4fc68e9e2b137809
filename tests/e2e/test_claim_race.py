"""Sixteen claimers, one run: what the store grants when everybody asks at the same moment (I1, I2)."""

import threading
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from queue import Empty
from typing import Final

import pytest

from reconciler.model.run import Claim
from reconciler.store import queries
from tests.e2e.crowd import SPAWN, Crowd
from tests.e2e.hands import JOB, Hands, contested_store

ROUNDS: Final = 200
PROCESSES: Final = 4
CLAIMERS_EACH: Final = 4
CLAIMERS: Final = PROCESSES * CLAIMERS_EACH
SECONDS: Final = 55.0

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS + 5)]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the store said to one claimer in one round: the fences it was granted (none for a loser), or its error."""

    claimer: str
    fences: tuple[int, ...] = ()
    error: str = ""


def test_of_sixteen_claimers_released_at_once_exactly_one_wins_each_round(store_url: str, tmp_path: Path) -> None:
    """I1, I2: 200 rounds on one run; the winner gives it back, so that its fence counts the rounds."""
    gate = SPAWN.Barrier(CLAIMERS + 1)
    answers: Queue[Answer] = SPAWN.Queue()

    with contested_store(store_url) as store, Crowd(tmp_path, seconds=SECONDS) as crowd:
        run_id = store.trigger(JOB)
        for number in range(PROCESSES):
            crowd.start(f"claimers-{number}", run_claimers, store_url, number, gate, answers)
        rounds = [_play_round(crowd, gate, answers) for _ in range(ROUNDS)]
        crowd.await_end()
        holds = store.database.read(lambda tx: queries.attempts_of(tx, run_id))

    granted = [tuple(fence for answer in heard for fence in answer.fences) for heard in rounds]
    assert granted == [(number,) for number in range(1, ROUNDS + 1)], "one winner a round, and its fence is the round's"
    assert [(hold.fence, hold.outcome) for hold in holds] == [(n, "HandedBack") for n in range(1, ROUNDS + 1)]
    assert len({hold.node for hold in holds}) >= PROCESSES, "it was no race if always the same ones win"


def _play_round(crowd: Crowd, gate: Barrier, answers: "Queue[Answer]") -> list[Answer]:
    """Open the gate, hear what everybody got, and open it again for the winner to give the run back."""
    crowd.pass_gate(gate)
    try:
        heard = [answers.get(timeout=crowd.seconds_left) for _ in range(CLAIMERS)]
    except Empty:
        pytest.fail(crowd.told("a claimer did not answer"), pytrace=False)
    crowd.pass_gate(gate)
    errors = [answer for answer in heard if answer.error]
    assert not errors, crowd.told(f"a loser gets an empty list, not an error: {errors}")
    return heard


def run_claimers(store_url: str, number: int, gate: Barrier, answers: "Queue[Answer]") -> None:
    """One process: several claimers, each with a connection of its own."""
    names = [f"claimer-{number}-{each}" for each in range(CLAIMERS_EACH)]
    threads = [threading.Thread(target=_claim_each_round, args=(store_url, name, gate, answers)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _claim_each_round(store_url: str, name: str, gate: Barrier, answers: "Queue[Answer]") -> None:
    try:
        hands = Hands.join(store_url, name)
        for _ in range(ROUNDS):
            gate.wait(SECONDS)
            won = _claim(hands, answers)
            gate.wait(SECONDS)
            if won:
                hands.hand_back(won)
        hands.leave()
    except BaseException:
        gate.abort()
        raise


def _claim(hands: Hands, answers: "Queue[Answer]") -> list[Claim]:
    name = hands.session.name
    try:
        won = hands.claim(limit=1)
    except Exception as fault:  # noqa: BLE001 - the test fails with it
        answers.put(Answer(name, error=repr(fault)))
        return []
    answers.put(Answer(name, tuple(claim.fence for claim in won)))
    return won
