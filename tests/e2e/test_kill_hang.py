"""Processes that hang instead of dying, and stores that go away: jobs end in time, late writes are refused (I3, I5)."""

from pathlib import Path

import psutil
import pytest

from reconciler.worker.events import RunEnded, RunStarted, SessionLost
from tests.e2e.cluster import LEASE_SECONDS, Cluster, guard_of
from tests.postgres import PostgresServer
from tests.worker.cast import command, staged
from tests.worker.trees import TREE, TREE_SIZE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@pytest.mark.case("LSE-01")
def test_a_worker_stopped_for_long_writes_nothing_late_and_both_refusals_are_counted(cluster: Cluster) -> None:
    """Lease 6 s, heartbeat 2 s, stopped for 15 s: one job ended meanwhile by itself, one was killed with the lease."""
    for name, first_time in {"short": "sleep 3; echo first time; exit 0", "long": TREE}.items():
        cluster.script(name, f"if mkdir {cluster.home}/{name} 2>/dev/null\nthen {first_time}\nfi\necho second time")
    cluster.serve()
    cluster.loaded("short", "long")
    first = cluster.worker("first", lease=6.0)
    runs = [cluster.trigger("short"), cluster.trigger("long")]
    cluster.wait(lambda: len(cluster.job_processes()) >= TREE_SIZE + 1, seconds=15)

    cluster.halt(first.pid)
    # The guard is no part of the worker: it stops renewing, and has killed the jobs before the lease is over.
    cluster.wait(lambda: not cluster.job_processes(), seconds=4.0 + 6.0 - 1.0 + 1.0)
    cluster.worker("second", lease=6.0)
    cluster.wait(lambda: all(cluster.run(run).is_over for run in runs), seconds=20)
    cluster.resume(first.pid)
    cluster.wait(lambda: len(refused_results(cluster.log("first"))) == 2, seconds=10)

    for run in runs:
        assert [each.outcome for each in cluster.attempts(run)] == ["LostLease", "Succeeded"]
        assert (cluster.run(run).node, cluster.run(run).fence, cluster.run(run).lost_leases) == ("second", 2, 1)
        assert cluster.attempts(run)[-1].output == "second time\n"
    cluster.wait(lambda: cluster.session_of("first", first.pid), seconds=10)


def refused_results(log: str) -> list[str]:
    """The refusals that a worker told of, without those of lines that it read late."""
    return [line for line in log.splitlines() if "fenced_out" in line and '"operation": "log"' not in line]


def test_a_guard_that_hangs_is_replaced_before_the_lease_is_over(cluster: Cluster) -> None:
    cluster.script("long", TREE)
    cluster.serve()
    cluster.loaded("long")
    worker = cluster.worker("worker")
    cluster.trigger("long")
    cluster.wait(lambda: len(cluster.job_processes()) >= TREE_SIZE, seconds=15)

    guard = guard_of(worker)
    guard.suspend()

    # The last renewal was just before, so this is within the lease.
    cluster.wait(lambda: not cluster.job_processes(), seconds=LEASE_SECONDS)
    cluster.wait(lambda: not guard.is_running(), seconds=2)
    cluster.wait(lambda: cluster.session_of("worker", worker.pid), seconds=10)
    assert worker.poll() is None


def test_a_worker_that_wakes_from_a_freeze_before_its_guard_does_not_end_it(cluster: Cluster) -> None:
    """A frozen machine stops both: the late result is offered and refused, and the guard goes on."""
    cluster.script("short", f"mkdir {cluster.home}/first 2>/dev/null && sleep 1; echo done")
    cluster.serve()
    cluster.loaded("short")
    frozen = cluster.worker("frozen")
    run = cluster.trigger("short")
    cluster.wait(cluster.job_processes, seconds=15)

    guard = guard_of(frozen)
    cluster.halt(frozen.pid, guard.pid)
    cluster.worker("other")
    cluster.wait(lambda: cluster.run(run).is_over, seconds=LEASE_SECONDS + 15)
    slept = psutil.Process(frozen.pid).num_ctx_switches().voluntary
    cluster.resume(frozen.pid)
    cluster.wait(lambda: psutil.Process(frozen.pid).num_ctx_switches().voluntary >= slept + 4, seconds=10)
    cluster.resume(guard.pid)

    cluster.wait(lambda: len(refused_results(cluster.log("frozen"))) == 1, seconds=10)
    cluster.wait(lambda: cluster.session_of("frozen", frozen.pid), seconds=10)
    assert guard_of(frozen).pid == guard.pid
    assert "guard_died" not in cluster.log("frozen")
    assert [each.outcome for each in cluster.attempts(run)] == ["LostLease", "Succeeded"]


@pytest.mark.parametrize(("away_seconds", "is_kept"), [(1.0, True), (9.0, False)])
def test_a_store_outage_ends_no_process_and_costs_a_job_only_when_it_outlasts_the_lease(
    tmp_path: Path, away_seconds: float, is_kept: bool
) -> None:
    """X1: no new claims, jobs go on to their local deadline, and no restart is needed.

    With this grace period a job outlasts 6 - 1 - 1 - 1 = 3 s, in which the server must be back (docs/operations.md).
    """
    server = PostgresServer.find()
    server.start()
    try:
        with staged(server.create_database(), tmp_path) as stage:
            stage.store.apply(command("job", "sleep", "4", gracePeriod="1s"))
            run = stage.store.trigger("job")
            stage.turn_until(lambda: stage.told(RunStarted))
            server.stop()
            stage.turn_for(away_seconds)
            server.start()
            stage.turn_until(lambda: stage.reaped(run), seconds=30)

            assert stage.store.run(run).state == "Succeeded"
            assert stage.store.run(run).lost_leases == (0 if is_kept else 1)
            assert bool(stage.told(SessionLost)) is not is_kept
            assert [event.result for event in stage.told(RunEnded)][-1:] == ["Succeeded"]
    finally:
        server.close()
