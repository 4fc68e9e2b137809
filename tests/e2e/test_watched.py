"""Answers that are watched, on a terminal and off it."""

import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reconciler.cli import run
from tests.reconcile.cast import document
from tests.worker.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_url: str) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECONCILER_STORE", store_url)
    (tmp_path / "jobs.d").mkdir()
    (tmp_path / "jobs.d" / "first.yaml").write_text(document("first"))
    assert run(["db", "upgrade"]) == 0
    assert run(["reconcile"]) == 0
    return tmp_path


def on_a_terminal(home: Path, *line: str, **environment: str) -> str:
    """Run a command on a terminal of its own for as long as it takes, or three seconds; give what it drew."""
    ours, theirs = pty.openpty()
    drawn: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 65536):
                drawn.append(piece)
        except OSError:
            return

    reader = threading.Thread(target=read)
    reader.start()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-m", "reconciler", *line],
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**kept, "TERM": "xterm", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(10)
    reader.join(10)
    os.close(ours)
    return b"".join(drawn).decode()


def test_off_a_terminal_a_watched_list_is_printed_when_something_changed(home: Path) -> None:
    log = home / "watch.log"
    with log.open("wb") as out:
        watching = subprocess.Popen(
            [sys.executable, "-m", "reconciler", "get", "jobs", "--watch"], cwd=home, stdout=out, stderr=out
        )
    try:
        until(lambda: "first" in log.read_text(), seconds=20)
        (home / "jobs.d" / "second.yaml").write_text(document("second"))
        assert run(["reconcile"]) == 0
        until(lambda: "second" in log.read_text(), seconds=20)
    finally:
        watching.send_signal(signal.SIGINT)

    assert watching.wait(20) == 130
    assert log.read_text().count("NAME") == 2
    assert "\x1b" not in log.read_text()


def test_on_a_terminal_a_watched_answer_is_drawn_in_place(home: Path) -> None:
    drawn = on_a_terminal(home, "status", "--watch")

    assert drawn.count("\x1b[H") >= 2
    assert "nobody leads" in drawn


@pytest.mark.parametrize(
    ("line", "environment", "colored"),
    [
        (["get", "passes"], {}, True),
        (["get", "passes"], {"NO_COLOR": "1"}, False),
        (["get", "passes"], {"TERM": "dumb"}, False),
        (["get", "passes", "--no-color"], {}, False),
        (["--no-color", "get", "passes"], {}, False),
    ],
)
def test_colours_are_for_terminals_whose_reader_wants_them(
    home: Path, line: list[str], environment: dict[str, str], colored: bool
) -> None:
    drawn = on_a_terminal(home, *line, **environment)

    assert "Applied" in drawn
    assert ("\x1b[" in drawn) is colored
