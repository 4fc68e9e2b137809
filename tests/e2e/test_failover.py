"""Leaders die and stop: no slot is made twice, none is lost, and another leads in time (invariants L3, S1, S2)."""

import itertools
import os
import signal
import statistics
import subprocess
from collections.abc import Callable

import pytest

from reconciler.clock import SECOND_US
from reconciler.store import leader, queries
from tests.e2e.cluster import TTL_SECONDS, Cluster

PROOF = bool(os.environ.get("RECONCILER_PROOF"))
KILLS_IN_PROOF = 200
SECONDS_PER_KILL = 15

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(KILLS_IN_PROOF * SECONDS_PER_KILL if PROOF else 400)]


def every_second(cluster: Cluster) -> None:
    cluster.job("pulse", handler={"type": "slow"}, triggers=[{"every": "1s", "anchor": "2026-01-01T00:00:00Z"}])


def term(cluster: Cluster) -> leader.Leadership:
    return cluster.database.read(leader.current)


def leading(cluster: Cluster) -> "tuple[str, subprocess.Popen[bytes]]":
    """The process that leads now; its owner name holds host and pid."""
    cluster.wait(lambda: term(cluster).alive, seconds=TTL_SECONDS + 4)
    pid = int(term(cluster).owner.split("/")[1])
    return next((name, process) for name, process in cluster.processes.items() if process.pid == pid)


def followed_after(cluster: Cluster, old: int) -> float:
    return cluster.wait(lambda: term(cluster).alive and term(cluster).term > old, seconds=TTL_SECONDS + 4)


def settled_slots(cluster: Cluster) -> list[int]:
    """Every slot that became a run or a ledger row, in seconds."""
    made = [run.slot_us for run in cluster.runs(job="pulse")]
    skipped = [row.slot_us for row in cluster.database.read(lambda tx: queries.skipped_slots(tx, limit=10_000))]
    return sorted(slot_us // SECOND_US for slot_us in [*made, *skipped])


def until_slots(cluster: Cluster, number: int) -> None:
    cluster.wait(lambda: len(settled_slots(cluster)) >= number, seconds=number + 20)


def check_every_slot_once(cluster: Cluster, *, at_least: int) -> None:
    slots = settled_slots(cluster)
    assert slots == list(range(slots[0], slots[0] + len(slots))), "a slot is missing or there twice"
    assert len(slots) >= at_least


def test_slots_across_leader_kills_are_each_made_once(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    wanted = 100 if cluster.database.is_sqlite else 30
    kills = KILLS_IN_PROOF if PROOF else wanted // 10
    gaps = []
    every_second(cluster)
    names = itertools.count()
    for _ in range(2):
        cluster.serve(f"leader-{next(names)}")
    cluster.loaded("pulse")
    for _ in range(kills):
        name, process = leading(cluster)
        old = term(cluster).term
        until_slots(cluster, 3)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        gaps.append(followed_after(cluster, old))
        assert gaps[-1] <= TTL_SECONDS + 2
        del cluster.processes[name]
        cluster.serve(f"leader-{next(names)}")
        until_slots(cluster, len(settled_slots(cluster)) + (1 if PROOF else 3))
    until_slots(cluster, wanted)

    record_property("followed_after_seconds", f"median {statistics.median(gaps):.2f}, at most {max(gaps):.2f}")
    check_every_slot_once(cluster, at_least=wanted)
    assert len({run.created_by for run in cluster.runs(job="pulse")}) >= 3, "several leaders made them"


def test_a_leader_that_stops_is_followed_within_a_second(cluster: Cluster) -> None:
    """L3: it hands over; default timings."""
    every_second(cluster)
    for name in ("first", "second"):
        cluster.start(name, "serve", str(cluster.jobs))
    cluster.loaded("pulse")
    _, process = leading(cluster)
    old = term(cluster).term

    process.terminate()
    process.wait(20)
    took = followed_after(cluster, old)

    assert took <= 1.0
    until_slots(cluster, 8)
    check_every_slot_once(cluster, at_least=8)


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_a_kill_at_default_timings_loses_nothing(cluster: Cluster) -> None:
    """TTL 15 s: the slots of the gap are on time, or caught up by the misfire rule and recorded."""
    every_second(cluster)
    for name in ("first", "second"):
        cluster.start(name, "serve", str(cluster.jobs))
    cluster.loaded("pulse")
    _, process = leading(cluster)
    old = term(cluster).term

    os.kill(process.pid, signal.SIGKILL)
    took = cluster.wait(lambda: term(cluster).alive and term(cluster).term > old, seconds=20)
    until_slots(cluster, 25)

    assert took <= 15 + 2
    check_every_slot_once(cluster, at_least=25)


def test_a_leader_stopped_past_its_term_writes_nothing_when_it_continues(cluster: Cluster) -> None:
    """L2: split brain ends at the guard."""
    every_second(cluster)
    for name in ("first", "second"):
        cluster.serve(name)
    cluster.loaded("pulse")
    name, process = leading(cluster)
    old = term(cluster).term

    cluster.halt(process.pid)
    followed_after(cluster, old)
    cluster.resume(process.pid)
    cluster.wait(lambda: "term_ended" in cluster.log(name), seconds=15)
    until_slots(cluster, 15)

    check_every_slot_once(cluster, at_least=15)
