"""`reconciler runs logs` beside real leaders and workers: live while the job runs, whole when it is over."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.cli.options import instant
from reconciler.clock import SECOND_US
from tests.e2e.cluster import LEASE_SECONDS, Cluster, guard_of
from tests.worker.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

TALK = """
echo "begun on attempt $RECONCILER_ATTEMPT"
until [ -e $0/go ]; do sleep 0.05; done
echo "a warning" >&2
echo "the last word"
"""


def logs(cluster: Cluster, run_id: int, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(_command(cluster, run_id, *options), capture_output=True, text=True, timeout=30, check=False)


@contextmanager
def following(cluster: Cluster, run_id: int, *options: str) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """`runs logs --follow`, and the file that it prints to."""
    printed = cluster.home / "followed"
    with printed.open("wb") as file:
        process = subprocess.Popen(_command(cluster, run_id, "--follow", *options), stdout=file, stderr=file)
    try:
        yield process, printed
    finally:
        process.kill()
        process.wait()


def _command(cluster: Cluster, run_id: int, *options: str) -> list[str]:
    return [sys.executable, "-m", "reconciler", "runs", "logs", str(run_id), "--store", cluster.url, *options]


def commit(cluster: Cluster, text: str = TALK) -> None:
    cluster.script("talk", text.replace("$0", str(cluster.home)))
    cluster.serve()
    cluster.loaded("talk")


def test_a_running_job_can_be_followed_to_its_end(cluster: Cluster) -> None:
    commit(cluster)
    run_id = cluster.trigger("talk")
    with following(cluster, run_id) as (process, printed):
        worker = cluster.worker("n1", "--slots", "1")
        until(lambda: printed.read_text() == "begun on attempt 1\n", seconds=15)
        so_far = logs(cluster, run_id)
        (cluster.home / "go").touch()
        assert process.wait(15) == 0
        followed = printed.read_text().splitlines()
    afterwards = logs(cluster, run_id)

    assert (so_far.returncode, so_far.stdout) == (0, "begun on attempt 1\n")
    assert so_far.stderr == f"run {run_id} is Running: there may be more to come (--follow)\n"
    assert (followed[0], sorted(followed[1:])) == ("begun on attempt 1", ["a warning", "the last word"])
    assert (afterwards.stdout.splitlines(), afterwards.stderr) == (followed, "")
    assert worker.poll() is None


def test_lines_can_be_chosen_stamped_and_read_by_programs(cluster: Cluster) -> None:
    commit(cluster)
    (cluster.home / "go").touch()
    cluster.worker("n1", "--slots", "1")
    run_id = cluster.trigger("talk")
    cluster.ended(run_id, seconds=15)
    (attempt,) = cluster.attempts(run_id)

    items = [json.loads(line) for line in logs(cluster, run_id, "-o", "json", "--follow").stdout.splitlines()]
    warning = next(item for item in items if item["text"] == "a warning")

    assert [item.keys() for item in items] == [{"time", "node", "attempt", "stream", "text"}] * 3
    assert (warning["node"], warning["attempt"], warning["stream"]) == ("n1", 1, "stderr")
    assert warning["time"].endswith("Z")
    assert logs(cluster, run_id, "--stream", "stderr", "--timestamps").stdout == f"{warning['time']} a warning\n"
    assert logs(cluster, run_id, "--attempt", "2").stdout == ""
    assert logs(cluster, run_id, "--stream", "stdlog").returncode == 64
    assert logs(cluster, 999).returncode == 1
    assert attempt.output.splitlines() == [item["text"] for item in items]


@pytest.mark.case("LSE-01")
def test_nothing_that_a_stopped_node_read_after_its_lease_is_in_the_log(cluster: Cluster) -> None:
    """I3: worker and guard are stopped, so the job prints on; its run is taken over, then both continue."""
    commit(
        cluster, "for at in 1 2 3; do echo $RECONCILER_FENCE; sleep 0.2; done; [ $RECONCILER_FENCE = 2 ] || exec yes"
    )
    stopped = cluster.worker("stopped", "--slots", "1")
    run_id = cluster.trigger("talk")
    until(lambda: logs(cluster, run_id).stdout.count("1\n") >= 1, seconds=15)
    pids = [stopped.pid, guard_of(stopped).pid]
    cluster.halt(*pids)
    stopped_us = cluster.database.read(lambda tx: tx.now_us())
    cluster.worker("other", "--slots", "1")
    cluster.ended(run_id, seconds=LEASE_SECONDS + 15)
    cluster.resume(*pids)
    cluster.wait(lambda: "fenced_out" in cluster.log("stopped"), seconds=10)
    cluster.wait(lambda: cluster.session_of("stopped", stopped.pid), seconds=10)

    items = [json.loads(line) for line in logs(cluster, run_id, "-o", "json").stdout.splitlines()]
    assert [item["text"] for item in items if item["node"] == "other"] == ["2", "2", "2"]
    assert {item["node"] for item in items} == {"stopped", "other"}
    assert all(instant(item["time"]) <= stopped_us + SECOND_US / 10 for item in items if item["node"] == "stopped")
