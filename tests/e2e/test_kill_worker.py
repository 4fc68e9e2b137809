"""A worker dies or stalls mid-run: the work is claimed again in time, its processes are gone, nothing is done twice."""

import os
import signal

import pytest

from reconciler.clock import SECOND_US
from reconciler.model.run import RunState
from tests.e2e.cluster import LEASE_SECONDS, Cluster, guard_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

ONCE_LONG_THEN_SHORT = """
if [ -e "$0.$RECONCILER_RUN_ID" ]; then sleep 0.5; echo done; exit 0; fi
touch "$0.$RECONCILER_RUN_ID"
sleep 300 &
setsid sleep 300 &
( setsid sh -c 'sleep 300 & sleep 300' & )
env -i MARKLESS=1 sleep 300 &
wait
"""
"""Child, setsid child, double fork, and a child with a scrubbed environment; the second attempt ends by itself."""
JOB_SECONDS = 0.5
TREE = 4


def commit(cluster: Cluster) -> None:
    text = ONCE_LONG_THEN_SHORT.replace("$0", str(cluster.home / "seen"))
    cluster.script("long", text)
    cluster.serve()
    cluster.loaded("long")


def reclaimed_after(cluster: Cluster, run_id: int, killed_us: int) -> float:
    """Seconds from the kill to the start of the attempt that succeeded."""
    started_us = cluster.attempts(run_id)[-1].started_us
    assert started_us is not None
    return (started_us - killed_us) / SECOND_US


@pytest.mark.parametrize("victim", ["worker", "worker and guard"])
def test_a_killed_workers_run_is_claimed_again_in_time_and_its_processes_are_gone(
    cluster: Cluster, victim: str
) -> None:
    """I6, R2: 10 of 10 (5 of each kind of kill). Where the guard lives it ends the session; else the lease must."""
    commit(cluster)
    cluster.worker("survivor", "--slots", "1", "--queues", "nothing")
    for round_ in range(5):
        name = f"victim-{round_}"
        worker = cluster.worker(name, "--slots", "1")
        run_id = cluster.trigger("long")
        cluster.wait(lambda: len(cluster.job_processes()) >= TREE, seconds=15)
        guard = guard_of(worker)
        pids = [worker.pid, guard.pid] if victim == "worker and guard" else [worker.pid]
        killed_us = cluster.database.read(lambda tx: tx.now_us())
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        worker.wait()

        if victim == "worker":
            cluster.wait(lambda: not cluster.job_processes(), seconds=2)
        rescuer = cluster.worker(f"rescuer-{round_}", "--slots", "1")
        cluster.ended(run_id, seconds=LEASE_SECONDS + 2 + JOB_SECONDS + 5)

        run = cluster.run(run_id)
        assert (run.state, run.attempt, run.lost_leases, run.fence) == (RunState.SUCCEEDED, 2, 1, 2)
        assert reclaimed_after(cluster, run_id, killed_us) <= LEASE_SECONDS + 2
        lost, second = cluster.attempts(run_id)
        told = "its worker was gone; the guard ended the job" if victim == "worker" else "the node's lease ran out"
        assert (lost.outcome, lost.error) == ("LostLease", told)
        assert second.outcome == "Succeeded"
        for pid in cluster.job_processes():
            os.kill(pid, signal.SIGKILL)
        rescuer.terminate()
        rescuer.wait()


@pytest.mark.case("LSE-01")
def test_a_worker_that_was_stopped_past_its_lease_writes_nothing_when_it_continues(cluster: Cluster) -> None:
    """I3, I4, I5: its job is gone before another may start; its late write is refused and counted."""
    commit(cluster)
    stopped = cluster.worker("stopped", "--slots", "1")
    run_id = cluster.trigger("long")
    cluster.wait(lambda: len(cluster.job_processes()) >= TREE, seconds=15)
    cluster.halt(stopped.pid)
    other = cluster.worker("other", "--slots", "1")
    cluster.wait(lambda: not cluster.job_processes() or cluster.run(run_id).fence == 2, seconds=LEASE_SECONDS + 2)
    cluster.ended(run_id, seconds=LEASE_SECONDS + JOB_SECONDS + 6)
    cluster.resume(stopped.pid)
    cluster.wait(lambda: "session_lost" in cluster.log("stopped"), seconds=10)

    run = cluster.run(run_id)
    assert (run.state, run.node, run.fence) == (RunState.SUCCEEDED, "other", 2)
    assert [each.outcome for each in cluster.attempts(run_id)] == ["LostLease", "Succeeded"]
    cluster.wait(lambda: cluster.session_of("stopped", stopped.pid), seconds=10)
    assert other.poll() is None


def test_a_killed_guards_jobs_are_gone_and_its_worker_goes_on(cluster: Cluster) -> None:
    """I6: the worker kills what the guard left, ends its session and starts anew."""
    commit(cluster)
    worker = cluster.worker("worker", "--slots", "1")
    run_id = cluster.trigger("long")
    cluster.wait(lambda: len(cluster.job_processes()) >= TREE, seconds=15)

    guard_of(worker).kill()

    gone = cluster.wait(lambda: not cluster.job_processes(), seconds=2)
    cluster.ended(run_id, seconds=LEASE_SECONDS + 2 + JOB_SECONDS + 5)
    assert gone <= 2
    assert cluster.run(run_id).state is RunState.SUCCEEDED
    assert worker.poll() is None


@pytest.mark.case("LSE-02")
def test_a_job_longer_than_its_lease_runs_once(cluster: Cluster) -> None:
    cluster.script("effect", f"echo line >> {cluster.home}/effects; sleep {LEASE_SECONDS * 2.5}")
    cluster.serve()
    cluster.loaded("effect")
    cluster.worker("a")
    cluster.worker("b")
    run_id = cluster.trigger("effect")
    cluster.ended(run_id, seconds=LEASE_SECONDS * 4)

    assert (cluster.home / "effects").read_text() == "line\n"
    assert (cluster.run(run_id).state, cluster.run(run_id).attempt) == (RunState.SUCCEEDED, 1)


@pytest.mark.case("LSE-02")
def test_a_draining_worker_keeps_its_lease_until_its_job_is_done(cluster: Cluster) -> None:
    cluster.script("effect", f"echo line >> {cluster.home}/effects; sleep {LEASE_SECONDS * 1.5}")
    cluster.serve()
    cluster.loaded("effect")
    draining = cluster.worker("draining")
    run_id = cluster.trigger("effect")
    cluster.wait((cluster.home / "effects").exists, seconds=10)
    other = cluster.worker("other")
    draining.terminate()
    later = cluster.trigger("effect")
    cluster.wait(lambda: cluster.run(run_id).is_over and cluster.run(later).is_over, seconds=LEASE_SECONDS * 5)

    assert draining.wait(5) == 0
    assert "session_closed" in cluster.log("draining")
    assert [cluster.run(run_id).node, cluster.run(later).node] == ["draining", "other"]
    assert [cluster.run(each).attempt for each in (run_id, later)] == [1, 1]
    assert (cluster.home / "effects").read_text() == "line\nline\n"
    assert other.poll() is None


@pytest.mark.case("LSE-02")
def test_a_drain_shorter_than_the_job_hands_the_run_back(cluster: Cluster) -> None:
    commit(cluster)
    draining = cluster.worker("draining", "--drain-timeout", "1s")
    run_id = cluster.trigger("long")
    cluster.wait(lambda: len(cluster.job_processes()) >= TREE, seconds=15)
    draining.terminate()
    cluster.wait(lambda: draining.poll() is not None, seconds=15)
    cluster.worker("other")
    cluster.ended(run_id, seconds=10)

    assert [each.outcome for each in cluster.attempts(run_id)] == ["HandedBack", "Succeeded"]
    assert cluster.run(run_id).lost_leases == 0
