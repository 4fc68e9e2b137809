"""A capped queue over real workers: never more processes than places, and whoever waits says why (C1)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.run import RunState
from tests.e2e.cluster import Cluster
from tests.worker.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

RUNS = 12
PLACES = 2


def test_two_workers_never_run_more_of_a_queue_than_it_has_places(cluster: Cluster, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    effects.mkdir()
    _declare(cluster, "narrow", max=PLACES)
    # A job notes how many others are at it: what the world outside sees, whatever the store says.
    begin, end = 'mkdir "$0/run-$$"; ls "$0" | grep -c ^run- >> "$0/seen"', 'sleep 0.2; rmdir "$0/run-$$"'
    begin += '; until [ -e "$0/go" ]; do sleep 0.05; done'  # the first ones stay until the others were seen to wait
    argv = ["sh", "-c", f"{begin}; {end}", str(effects)]
    cluster.job("busy", queue="narrow", handler={"type": "command", "with": {"argv": argv}})
    cluster.serve()
    for name in ("worker-a", "worker-b"):
        cluster.worker(name, "--slots", "4")
    cluster.loaded("busy")
    assert _queues(cluster)["narrow"]["max"] == PLACES

    run_ids = [cluster.trigger("busy") for _ in range(RUNS)]
    until(lambda: "waits for a place in queue 'narrow' (max 2)" in _reasons(cluster), seconds=20)
    (effects / "go").touch()
    ended = [cluster.ended(run_id, seconds=60) for run_id in run_ids]

    seen = [int(line) for line in (effects / "seen").read_text().split()]
    assert len(seen) == RUNS
    assert max(seen) == PLACES
    assert {each.state for each in ended} == {RunState.SUCCEEDED}


def _declare(cluster: Cluster, name: str, **spec: Any) -> None:
    document = {"apiVersion": "reconciler/v1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    (cluster.jobs / f"queue-{name}.yaml").write_text(yaml.safe_dump(document))


def _queues(cluster: Cluster) -> dict[str, Any]:
    return {each["name"]: each for each in _told(cluster, "get", "queues")}


def _reasons(cluster: Cluster) -> list[str | None]:
    return [each["reason"] for each in _told(cluster, "get", "runs")]


def _told(cluster: Cluster, *arguments: str) -> Any:
    line = [sys.executable, "-m", "reconciler", *arguments, "-o", "json", "--store", cluster.url]
    return json.loads(subprocess.run(line, check=True, capture_output=True, timeout=30).stdout)["items"]
