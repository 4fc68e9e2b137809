"""The first minute: a fresh folder, one command, a green run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.worker.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

REPOSITORY = Path(__file__).parents[2]


def reconciler(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "reconciler", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def running_dev(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `reconciler dev` in an empty folder."""
    with (folder / "dev.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "reconciler", "dev"], cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(30)


@pytest.fixture
def dev(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with running_dev(tmp_path) as process:
        yield process


def tells_of_success(log: Path) -> bool:
    return "Succeeded" in log.read_text()


def succeeded(folder: Path) -> list[dict[str, object]]:
    """Succeeded runs of triggers, the oldest first."""
    listed = reconciler("runs", "list", "--state", "Succeeded", "-o", "json", cwd=folder)
    if listed.returncode != 0:
        return []
    return [run for run in json.loads(listed.stdout)["items"] if run["trigger"] != "manual"][::-1]


def processes_of(folder: Path) -> list[int]:
    """Living processes that work in a folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(folder):
                found.append(process.pid)
    return found


def test_dev_in_an_empty_directory_has_a_green_run_within_ten_seconds(tmp_path: Path) -> None:
    """From start-up to the first Succeeded run of a trigger, with the file its handler wrote.

    The best of three counts: other tests that run beside it can only make it slower.
    """
    took = []
    for name in ("first", "second", "third"):
        folder = tmp_path / name
        folder.mkdir()
        with running_dev(folder):
            took.append(until(partial(tells_of_success, folder / "dev.log"), seconds=25))
            run = succeeded(folder)[0]
        written = [file for file in (folder / ".reconciler" / "data").iterdir() if not file.name.startswith(".")]
        assert run["kind"] == "Job"
        assert written
        assert (folder / "jobs.d").is_dir(), "the examples were written"
        if took[-1] < 10:
            return
    pytest.fail(f"the first green run came after {took} s")


def test_dev_ends_in_order_and_leaves_nothing_behind(dev: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    until(lambda: succeeded(tmp_path), seconds=20)
    dev.send_signal(signal.SIGINT)

    assert dev.wait(30) == 0
    assert processes_of(tmp_path) == []
    assert "Traceback" not in (tmp_path / "dev.log").read_text()


def test_a_killed_devs_worker_ends_too(dev: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    until(lambda: succeeded(tmp_path), seconds=20)
    os.kill(dev.pid, signal.SIGKILL)

    until(lambda: not processes_of(tmp_path), seconds=20)


def test_validate_imports_no_database(tmp_path: Path) -> None:
    program = """
import sys
from reconciler.cli import run

code = run(["validate", sys.argv[1]])
print(sorted({name.partition(".")[0] for name in sys.modules} & {"sqlalchemy", "structlog", "psycopg", "alembic"}))
raise SystemExit(code)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(REPOSITORY / "jobs.d")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith("[]")
