"""`reconciler dev` with several nodes, and the demonstration of a stalled one."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.cli import devnodes
from tests.e2e.cluster import marked
from tests.reconcile.cast import document
from tests.worker.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_the_demonstration_shows_lease_expiry_takeover_and_the_refused_write(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", "dev", "--kill-demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    told = [line.split(" s ", 1)[1] for line in done.stdout.splitlines() if " s " in line[:10]]
    first = re.match(r"(dev-\d) claims run 1 with fence 1", told[0])
    assert first is not None
    other = {"dev-1": "dev-2", "dev-2": "dev-1"}[first.group(1)]
    assert any(line.startswith("the lease has run out") for line in told)
    assert f"{other} claims run 1 with fence 2" in told
    assert any(re.match(r"refused \(\w+ under fence 1\): the run's fence is 2 now", line) for line in told)
    assert "run 1 is Succeeded: one result was accepted" in told
    assert f"attempt 1 (fence 1) on {first.group(1)}: LostLease" in done.stdout
    assert f"attempt 2 (fence 2) on {other}: Succeeded" in done.stdout
    assert list(tmp_path.iterdir()) == [], "it works in a folder of its own"
    assert not marked(str(tmp_path))


def test_dev_admits_what_its_help_names_and_says_how_to_admit_more(tmp_path: Path) -> None:
    """The remedy fits where it is read: nobody starts the worker of `dev` by hand."""
    (tmp_path / "jobs.d").mkdir()
    for name, program in (("admitted", "echo"), ("refused", "env")):
        handler = {"type": "command", "with": {"argv": [program]}}
        text = document(name, handler=handler, triggers=[{"every": "1s"}])
        (tmp_path / "jobs.d" / f"{name}.yaml").write_text(text)
    log = tmp_path / "dev.log"
    with log.open("wb") as out:
        dev = subprocess.Popen([sys.executable, "-m", "reconciler", "dev"], cwd=tmp_path, stdout=out, stderr=out)
    try:
        until(lambda: {"admitted", "refused"} <= set(re.findall(r"run \d+ +(\w+) ", log.read_text())), seconds=60)
    finally:
        dev.send_signal(signal.SIGINT)
        dev.wait(40)

    told = log.read_text()
    assert re.search(r"admitted +Succeeded", told)
    assert "To allow it, start `reconciler dev` with --allow env" in told
    assert "echo" in devnodes.ALLOWED


def test_several_nodes_share_the_work_and_each_line_names_its_node(tmp_path: Path) -> None:
    (tmp_path / "jobs.d").mkdir()
    for number in range(4):
        text = document(f"pulse-{number}", handler={"type": "noop"}, triggers=[{"every": "1s"}])
        (tmp_path / "jobs.d" / f"{number}.yaml").write_text(text)
    log = tmp_path / "dev.log"
    with log.open("wb") as out:
        dev = subprocess.Popen(
            [sys.executable, "-m", "reconciler", "dev", "--nodes", "3"], cwd=tmp_path, stdout=out, stderr=out
        )

    def nodes_seen() -> set[str]:
        return set(re.findall(r"run \d+ +(dev-\d) ", log.read_text()))

    try:
        until(lambda: len(nodes_seen()) >= 2, seconds=60)
    finally:
        dev.send_signal(signal.SIGINT)
        dev.wait(40)

    assert nodes_seen() <= {"dev-1", "dev-2", "dev-3"}
    assert log.read_text().splitlines()[-2:] == [
        "stopping: running jobs may finish …",
        "stopped: everything it keeps is in .reconciler, and the next `reconciler dev` goes on with it",
    ]
    assert dev.returncode == 0
