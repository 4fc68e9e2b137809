"""What a worker does when its session is over or its run is another's: it writes nothing, says so, and goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import Update, update

from reconciler.clock import SystemClock
from reconciler.model.run import AttemptOutcome
from reconciler.store import claiming, logs, nodes
from reconciler.store.database import Database, Tx
from reconciler.store.tables import nodes as nodes_table
from reconciler.worker.events import FencedOut, RunStarted, RunStopped, SessionLost, SessionOpened
from tests.worker.cast import FAST, Stage, command, staged
from tests.worker.waiting import until

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage


def over(tx: Tx) -> Update:
    """Let the leases of all nodes be over by the store's clock, as after a stall."""
    return update(nodes_table).values(lease_until_us=tx.lease_now - 1)


def expire_sessions(stage: Stage) -> None:
    stage.store.database.tx(lambda tx: tx.execute(over(tx)))


def start(stage: Stage, script: str, **spec: Any) -> int:
    stage.store.apply(command("job", "sh", "-c", script, **spec))
    run = stage.store.trigger("job")
    stage.turn_until(lambda: stage.told(RunStarted))
    return run


def finish_elsewhere(stage: Stage) -> None:
    """Another node takes the run over and succeeds."""
    stage.store.reap()
    other = stage.store.node("other", handlers=["command"])
    won = stage.store.database.tx(lambda tx: claiming.claim(tx, other, limit=9, handlers=["command"], queues=None))
    assert [stage.store.finish(other, each) for each in won] == [True]


def log_of(stage: Stage, run: int) -> list[str]:
    return [row.text for row in stage.store.database.read(lambda tx: logs.lines_of(tx, run, limit=100))]


def sessions(url: str) -> list[nodes.Node]:
    database = Database.open(url)
    listed = database.read(lambda tx: nodes.listed(tx, limit=10))
    database.close()
    return listed


@pytest.mark.case("LSE-01")
def test_a_late_result_is_refused_and_counted_and_the_other_node_s_stands(stage: Stage, tmp_path: Path) -> None:
    run = start(stage, f"touch {tmp_path}/begun; sleep 1; exit 3")
    until((tmp_path / "begun").exists)
    expire_sessions(stage)
    finish_elsewhere(stage)
    # The worker's loop stood still meanwhile; its job has ended by itself.
    stage.turn_until(lambda: stage.told(FencedOut))

    assert stage.store.run(run).state == "Succeeded"
    assert stage.outcomes(run) == [AttemptOutcome.LOST_LEASE, AttemptOutcome.SUCCEEDED]
    assert [(event.run_id, event.fence) for event in stage.told(FencedOut)] == [(run, 1)]


@pytest.mark.case("LSE-01")
def test_lines_that_come_late_are_refused_and_counted_and_the_earlier_ones_stand(stage: Stage, tmp_path: Path) -> None:
    """I3: log append."""
    wait_and_print = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo late; touch {tmp_path}/printed; sleep 300"
    run = start(stage, f"echo early; {wait_and_print}")
    until(lambda: log_of(stage, run) == ["early"])

    def expire_while_it_prints(tx: Tx) -> None:
        """Neither the lines nor the next heartbeat get past this transaction: they find the lease over."""
        tx.execute(over(tx))
        (tmp_path / "go").touch()
        until((tmp_path / "printed").exists)

    # The worker's loop stands still; only the threads that read and write go on.
    stage.store.database.tx(expire_while_it_prints)
    until(lambda: stage.told(FencedOut))
    finish_elsewhere(stage)

    assert stage.told(FencedOut) == [FencedOut("n1", run, 1, "log")]
    stage.turn_until(lambda: len(stage.told(SessionOpened)) == 2)
    assert [event.operation for event in stage.told(FencedOut)] == ["log", "hand_back"]
    assert log_of(stage, run) == ["early"]
    assert stage.outcomes(run) == [AttemptOutcome.LOST_LEASE, AttemptOutcome.SUCCEEDED]


@pytest.mark.case("LSE-01")
def test_a_job_whose_lease_is_over_is_killed_and_the_node_goes_on_under_a_new_session(stage: Stage) -> None:
    run = start(stage, "sleep 300")
    expire_sessions(stage)
    stage.turn_until(lambda: stage.told(RunStopped))
    finish_elsewhere(stage)
    stage.turn_until(lambda: len(stage.told(SessionOpened)) == 2)

    assert stage.outcomes(run) == [AttemptOutcome.LOST_LEASE, AttemptOutcome.SUCCEEDED]
    assert [event.operation for event in stage.told(FencedOut)] == ["hand_back"]
    assert len(stage.told(SessionLost)) == 1
    assert stage.run(command("next", "true")).state == "Succeeded"


def test_a_job_that_stalls_its_worker_uses_up_its_lost_leases(stage: Stage, tmp_path: Path) -> None:
    """R3: its guard ended it early enough that the worker wakes under a lease that still holds."""
    pid = tmp_path / "pid"
    run = start(stage, f"echo $$ > {pid}.new && mv {pid}.new {pid}; exec sleep 300", poison={"maxLostLeases": 1})
    until(pid.exists)
    # The worker's loop stands still: nobody answers the guard, which renews no more, and ends the job.
    until(lambda: not psutil.pid_exists(int(pid.read_text())))
    stage.turn_until(lambda: stage.outcomes(run))

    assert stage.outcomes(run) == [AttemptOutcome.LOST_LEASE]
    assert (stage.store.run(run).state, stage.store.run(run).reason) == ("DeadLettered", "TooManyLostLeases")
    assert stage.told(FencedOut) == []


def test_a_claim_that_the_store_refuses_opens_a_new_session(stage: Stage) -> None:
    stage.turn_until(lambda: stage.told(SessionOpened))
    expire_sessions(stage)

    assert stage.run(command("next", "true")).state == "Succeeded"
    assert len(stage.told(SessionLost)) == 1


def test_nothing_is_begun_under_a_lease_that_is_about_to_end(stage: Stage) -> None:
    """After an outage the store answers before the lease is renewed: a job begun then was stopped at once."""
    stage.turn_until(lambda: stage.told(SessionOpened))
    membership = stage.worker._membership  # noqa: SLF001 - as if it had not been renewed for long
    stage.store.apply(command("job", "true"))
    run = stage.store.trigger("job")
    membership.asked_at = long_ago = SystemClock().elapsed() - 0.6 * FAST.lease_seconds

    stage.turn_until(lambda: stage.told(RunStarted))

    assert membership.asked_at > long_ago, "it was renewed first"
    stage.turn_until(lambda: stage.store.run(run).is_over)
    assert stage.outcomes(run) == [AttemptOutcome.SUCCEEDED]


def test_a_drained_worker_hands_back_what_it_cannot_finish(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path, drain_timeout_seconds=0.5) as stage:
        run = start(stage, "sleep 300", gracePeriod="1s")
        waiting = stage.store.trigger("job")
        stage.worker.drain()
        stage.turn_until(lambda: stage.worker.is_done)

        assert stage.outcomes(run) == [AttemptOutcome.HANDED_BACK]
        assert stage.store.run(run).state == "Pending"
        assert stage.store.run(run).lost_leases == 0
        claimed = [event.run_id for event in stage.told(RunStarted)]
        assert claimed.count(run) == 1
        assert [node.state for node in sessions(store_url)] == ["Draining"]
        assert stage.store.run(waiting).state in {"Pending", "Running"}


def test_a_drain_that_is_asked_for_twice_does_not_wait_for_the_grace_period(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path) as stage:
        run = start(stage, "trap '' TERM; sleep 300", gracePeriod="1h")
        stage.worker.drain()
        stage.worker.drain()
        stage.turn_until(lambda: stage.worker.is_done, seconds=5.0)

        assert stage.outcomes(run) == [AttemptOutcome.HANDED_BACK]


def test_a_worker_that_has_drained_has_ended_its_session(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path) as stage:
        stage.run(command("job", "true"))
        assert [node.alive for node in sessions(store_url)] == [True]

    assert not any(node.alive for node in sessions(store_url))
