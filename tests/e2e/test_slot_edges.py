"""Leaders are killed at the very edges of slots while definitions change: each slot has one fate (S1, S2, S6, L3)."""

import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest
from sqlalchemy import select

from reconciler.clock import SECOND_US
from reconciler.model.run import SkipReason
from reconciler.store import definitions, leader, queries
from reconciler.store.tables import definition_versions
from tests.e2e.cluster import Cluster

PROOF = bool(os.environ.get("RECONCILER_PROOF"))
ROUNDS = 200 if PROOF else 12
TTL = "1s"
FOLLOWED_SECONDS = 1 + 4
EDGE_SECONDS = 0.05
SECONDS_PER_ROUND = 15
MISSED = {SkipReason.MISFIRE_SKIPPED}
REASONS = {"all": set(), **dict.fromkeys(("pulse", "spread", "strict", "changing", "coming", "working"), MISSED)}
"""What the ledger may say of each: a takeover may take longer than what counts as on time."""
EVEN, ODD = "*/2 * * * * *", "1-59/2 * * * * *"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(ROUNDS * SECONDS_PER_ROUND + 60)]


@dataclass
class Leaders:
    """Two candidates, of which the leading one is killed again and again."""

    cluster: Cluster
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    late: list[float] = field(default_factory=list)
    """By how many seconds each kill came after its instant."""

    def start(self) -> None:
        self.cluster.serve(f"leader-{next(self.numbers)}", "--leader-ttl", TTL)

    def term(self) -> leader.Leadership:
        return self.cluster.database.read(leader.current)

    def leading(self) -> "tuple[str, subprocess.Popen[bytes]]":
        self.cluster.wait(lambda: self.term().alive, seconds=FOLLOWED_SECONDS)
        pid = int(self.term().owner.split("/")[1])
        return next((name, each) for name, each in self.cluster.processes.items() if each.pid == pid)

    def stop(self) -> None:
        """Stop all of them cleanly."""
        for process in self.cluster.processes.values():
            process.terminate()
        for process in self.cluster.processes.values():
            process.wait(20)

    def kill_at(self, seconds: float, edit: Callable[[], None], *, ahead: float) -> None:
        """Edit so much ahead of an instant of the wall clock, kill who leads at it, and see that another follows."""
        name, process = self.leading()
        old = self.term().term
        time.sleep(max(0.0, seconds - ahead - time.time()))
        edit()
        time.sleep(max(0.0, seconds - time.time()))
        os.kill(process.pid, signal.SIGKILL)
        self.late.append(time.time() - seconds)
        process.wait()
        del self.cluster.processes[name]
        self.start()
        self.cluster.wait(lambda: self.term().alive and self.term().term > old, seconds=FOLLOWED_SECONDS)


def declare_steady(cluster: Cluster) -> None:
    """Jobs that no round changes; each has a slot at every second."""
    slow = {"type": "slow"}
    cluster.job("pulse", handler=slow, triggers=[{"every": "1s", "anchor": "2026-01-01T00:00:00Z"}])
    cluster.job("spread", handler=slow, triggers=[{"cron": "* * * * * *", "jitter": "3s"}])
    cluster.job("strict", handler=slow, triggers=[{"cron": "* * * * * *", "misfire": {"policy": "SkipToNext"}}])


def redeploy(cluster: Cluster, number: int) -> None:
    """Change a timing, take a trigger out and put it in again; change a payload, a rule and a file's name as well."""
    slow = {"type": "slow"}
    cluster.job("changing", handler=slow, triggers=[{"cron": (EVEN, ODD)[number % 2]}])
    cluster.job("coming", handler=slow, triggers=[{"cron": EVEN}] if number % 3 else [])
    cluster.job("working", handler={"type": "slow", "with": {"steps": 1 + number % 5}}, triggers=[{"cron": EVEN}])
    rule = {"policy": "RunAllMissed", "cap": 100 - number % 2}
    cluster.job("all", handler=slow, triggers=[{"cron": "* * * * * *", "misfire": rule}])
    names = ("pulse.yaml", "renamed.yaml")
    with contextlib.suppress(FileNotFoundError):
        (cluster.jobs / names[(number + 1) % 2]).rename(cluster.jobs / names[number % 2])


def payload(cluster: Cluster) -> object:
    """What the job whose payload changes says now, in the store."""
    return cluster.database.read(lambda tx: definitions.named(tx, "working")).document["spec"]["handler"]["with"]


def recorded(cluster: Cluster, job: str) -> "Sequence[queries.SkippedSlot]":
    """The ledger of a job."""
    return cluster.database.read(lambda tx: queries.skipped_slots(tx, limit=100_000, job=job))


def fates(cluster: Cluster, job: str, until: int) -> Counter[int]:
    """Count runs and ledger rows by slot, in seconds."""
    rows = recorded(cluster, job)
    made = [run.slot_us for run in cluster.database.read(lambda tx: queries.runs_listed(tx, limit=100_000, job=job))]
    seconds = [(slot_us or 0) // SECOND_US for slot_us in (*made, *(row.slot_us for row in rows))]
    return Counter(second for second in seconds if second <= until)


def expected(cluster: Cluster, job: str, until: int) -> list[int]:
    """What the versions of a job, as they were applied one after the other, owe: arithmetic on seconds alone."""
    stored = cluster.database.read(lambda tx: definitions.named(tx, job))
    versions = cluster.database.read(
        lambda tx: tx.execute(
            select(definition_versions)
            .where(definition_versions.c.definition_id == stored.id)
            .order_by(definition_versions.c.generation)
        ).all()
    )
    begun = [each.applied_us for each in versions]
    owed: list[int] = []
    for version, begin_us, end_us in zip(versions, begun, [*begun[1:], until * SECOND_US], strict=True):
        span = range(begin_us // SECOND_US + 1, min(end_us // SECOND_US, until) + 1)
        for trigger in json.loads(version.document)["spec"]["triggers"]:
            step, rest = {EVEN: (2, 0), ODD: (2, 1)}.get(trigger.get("cron", ""), (1, 0))
            owed += [second for second in span if second % step == rest]
    return owed


def settled_until(cluster: Cluster, jobs: Iterable[str]) -> int:
    """Wait until the slots of all jobs are settled up to one second, and give it."""
    until = int(time.time())
    wanted = set(jobs)
    ids = [each.id for each in cluster.definitions() if each.name in wanted]

    def are_settled() -> bool:
        found = cluster.database.read(lambda tx: definitions.triggers_of(tx, ids))
        return all(each.removed_us is not None or each.cursor_us >= (until - 2) * SECOND_US for each in found)

    cluster.wait(are_settled, seconds=20)
    return until - 2


def test_kills_at_slot_edges_and_redeploys_leave_each_slot_one_fate(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    leaders = Leaders(cluster)
    declare_steady(cluster)
    redeploy(cluster, 0)
    for _ in range(2):
        leaders.start()
    jobs = ("pulse", "spread", "strict", "all", "changing", "coming", "working")
    cluster.loaded(*jobs)

    for number in range(1, ROUNDS + 1):
        offset = EDGE_SECONDS * (2 * (number * 7 % ROUNDS) / ROUNDS - 1)
        edge = int(time.time()) + 2 + offset
        ahead = 0.05 + 0.15 * (number % 4)  # the edit is new, under way or applied by then
        leaders.kill_at(edge, partial(redeploy, cluster, number), ahead=ahead)
    cluster.wait(lambda: payload(cluster) == {"steps": 1 + ROUNDS % 5}, seconds=20)

    until = settled_until(cluster, jobs)
    generations = cluster.database.read(lambda tx: definitions.named(tx, "changing")).generation
    leaders.stop()
    late = sorted(leaders.late)
    record_property("rounds", f"{ROUNDS} kills, {generations - 1} redeploys of a timing")
    record_property("kills_late_seconds", f"median {statistics.median(late):.4f}, at most {late[-1]:.3f}")
    assert generations > ROUNDS * 3 // 4, "most redeploys were applied one by one"
    for job in jobs:
        found, owed = fates(cluster, job, until), expected(cluster, job, until)
        assert [each for each, times in found.items() if times > 1] == [], f"{job}: a slot with two fates"
        assert sorted(found) == owed, f"{job}: lost {set(owed) - set(found)}, not owed {set(found) - set(owed)}"
        assert {row.reason for row in recorded(cluster, job)} <= REASONS[job]
    assert len({run.created_by for run in cluster.runs(job="pulse")}) > ROUNDS // 2, "many leaders made them"
