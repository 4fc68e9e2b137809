"""Real processes that take their settings from `reconciler.yaml`."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.reconcile.cast import document
from tests.worker.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]


def test_one_leader_applies_every_source_and_one_that_is_gone_holds_up_no_other(cluster: Cluster) -> None:
    more = cluster.home / "more.d"
    more.mkdir()
    (more / "b.yaml").write_text(document("of-more"))
    cluster.job("of-jobs", handler={"type": "slow"})
    (cluster.home / "reconciler.yaml").write_text(
        "sources: [{name: more, path: more.d}, {name: jobs, path: jobs.d}]\n"
        "timings: {leaderTtl: 3s, rescan: 1s}\n"
        "node: {name: configured, slots: 2}\n"
        "worker: {allow: [echo]}\n"
    )
    cluster.start("leader", "serve")
    cluster.start("node", "worker")

    cluster.loaded("of-more", "of-jobs")
    shutil.rmtree(more)
    cluster.job("later", handler={"type": "command", "with": {"argv": ["echo", "{{ slot }}"]}})
    cluster.loaded("later")

    assert {each.name: each.source for each in cluster.definitions()} == {
        "of-more": "more",
        "of-jobs": "jobs",
        "later": "jobs",
    }
    run = cluster.ended(cluster.trigger("later"), seconds=20)
    assert (run.state, run.node) == ("Succeeded", "configured")


def test_dev_never_leads_the_store_that_a_file_names(tmp_path: Path) -> None:
    (tmp_path / "jobs.d").mkdir()
    (tmp_path / "jobs.d" / "a.yaml").write_text(document("pulse", triggers=[{"every": "1s"}]))
    (tmp_path / "reconciler.yaml").write_text(
        "store: {url: 'sqlite:///production.db'}\nnode: {queues: [nobody]}\ntimings: {lease: 6000s}\n"
    )
    log = tmp_path / "dev.log"
    with log.open("wb") as out:
        dev = subprocess.Popen([sys.executable, "-m", "reconciler", "dev"], cwd=tmp_path, stdout=out, stderr=out)
    try:
        until(lambda: "Succeeded" in log.read_text(), seconds=30)
    finally:
        dev.send_signal(signal.SIGINT)
        dev.wait(30)

    assert not (tmp_path / "production.db").exists()
    assert (tmp_path / ".reconciler" / "store.db").exists()


def test_dev_writes_no_examples_where_a_file_says_the_definitions_are(tmp_path: Path) -> None:
    (tmp_path / "reconciler.yaml").write_text("sources: [{name: mounted, path: not-yet-mounted}]\n")
    log = tmp_path / "dev.log"
    with log.open("wb") as out:
        dev = subprocess.Popen([sys.executable, "-m", "reconciler", "dev"], cwd=tmp_path, stdout=out, stderr=out)
    try:
        until(lambda: "not-yet-mounted cannot be read" in log.read_text(), seconds=30)
    finally:
        dev.send_signal(signal.SIGINT)
        dev.wait(30)

    assert not (tmp_path / "not-yet-mounted").exists()
