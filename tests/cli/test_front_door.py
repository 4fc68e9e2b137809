"""The front door: exit codes that scripts rely on, and never a traceback, whatever is asked."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from reconciler.cli import _COMMANDS, alone, root, run
from tests.reconcile.cast import document

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def reconciler_in(folder: Path) -> Run:
    """Run command lines in a folder."""

    def run(*arguments: str | bytes, shell_end: str = "") -> "subprocess.CompletedProcess[str]":
        line = [sys.executable, "-m", "reconciler", *arguments]
        program = ["sh", "-c", f'"$@" {shell_end}', "sh", *line] if shell_end else line
        return subprocess.run(
            program, cwd=folder, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )

    return run


@pytest.fixture
def reconciler(tmp_path: Path) -> Run:
    """Run a command line in a folder of its own."""
    return reconciler_in(tmp_path)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """One job, applied."""
    return apply_one_job(tmp_path)


@pytest.fixture(scope="module")
def stored_for_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for tests that change nothing."""
    return apply_one_job(tmp_path_factory.mktemp("stored"))


@pytest.fixture
def copied(stored_for_all: Path, tmp_path: Path) -> Path:
    """The same for tests that may change the folder, and apply nothing: a source that has moved is refused."""
    shutil.copytree(stored_for_all, tmp_path, dirs_exist_ok=True)
    return tmp_path


def apply_one_job(folder: Path) -> Path:
    reconciler = reconciler_in(folder)
    (folder / "jobs.d").mkdir()
    (folder / "jobs.d" / "report.yaml").write_text(document("report"))
    assert reconciler("db", "upgrade").returncode == 0
    assert reconciler("reconcile").returncode == 0
    return folder


def exits(done: "subprocess.CompletedProcess[str]", code: int, *, saying: str = "") -> None:
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    assert saying in done.stdout + done.stderr


def test_valid_and_invalid_definitions(reconciler: Run, stored: Path) -> None:
    exits(reconciler("validate"), 0, saying="1 valid definition")
    (stored / "jobs.d" / "bad.yaml").write_text(document("bad", priorty=1))
    exits(reconciler("validate"), 1, saying='did you mean "priority"?')
    exits(reconciler("reconcile", "--dry-run"), 1)
    exits(reconciler("reconcile"), 1, saying="Invalid")


def test_changes_are_told_by_exit_code_only_when_asked_for(reconciler: Run, stored: Path) -> None:
    exits(reconciler("reconcile", "--dry-run", "--detailed-exitcode"), 0)
    (stored / "jobs.d" / "new.yaml").write_text(document("new"))
    exits(reconciler("reconcile", "--dry-run"), 0, saying="1 to create")
    exits(reconciler("reconcile", "--dry-run", "--detailed-exitcode"), 2)


@pytest.mark.parametrize("how", ["emptied", "vanished", "unreadable"])
def test_an_emptied_vanished_or_unreadable_folder_is_refused(reconciler: Run, stored: Path, how: str) -> None:
    (stored / "jobs.d" / "report.yaml").unlink()
    if how != "emptied":
        (stored / "jobs.d").rmdir()
    if how == "unreadable":
        (stored / "jobs.d").write_text("no folder")

    exits(reconciler("reconcile"), 3)
    exits(reconciler("reconcile", "--dry-run"), 3)
    exits(reconciler("get", "jobs"), 0, saying="report")


def test_held_deletions_show_where_people_look_and_go_on_after_their_approval(reconciler: Run, stored: Path) -> None:
    (stored / "jobs.d" / "report.yaml").unlink()
    held = reconciler("reconcile")
    digest = held.stderr.rsplit("approve ", 1)[1].split("`")[0]

    exits(reconciler("get", "jobs"), 0, saying="DeletionHeld")
    exits(reconciler("approve", "0" * 16), 1)
    exits(reconciler("approve", digest), 0, saying="report")
    exits(reconciler("reconcile"), 0, saying="- report")


def test_another_plan_than_the_expected_one_is_refused(reconciler: Run, stored: Path) -> None:
    (stored / "jobs.d" / "new.yaml").write_text(document("new"))
    exits(reconciler("reconcile", "--expect-digest", "0" * 64), 3)


def test_a_plan_of_an_empty_store_is_applied_by_its_digest(reconciler: Run, tmp_path: Path) -> None:
    (tmp_path / "jobs.d").mkdir()
    (tmp_path / "jobs.d" / "report.yaml").write_text(document("report"))
    shown = reconciler("reconcile", "--dry-run").stdout
    digest = shown.rsplit("--expect-digest ", 1)[1].strip()
    reconciler("db", "upgrade")

    exits(reconciler("reconcile", "--expect-digest", digest), 0, saying="+ report")


def test_what_does_not_exist(reconciler: Run, stored: Path) -> None:
    exits(reconciler("runs", "show", "99"), 1, saying="there is no run 99")
    exits(reconciler("trigger", "nope"), 1, saying="there is no job 'nope'")
    exits(reconciler("runs", "list", "--job", "nope"), 1, saying="there is no job 'nope'")


def test_a_missing_or_unreachable_store(reconciler: Run, tmp_path: Path) -> None:
    exits(reconciler("get", "jobs"), 4, saying="there is no store")
    exits(reconciler("get", "jobs", "--store", "postgresql://nobody:hush@127.0.0.1:1/x"), 4)
    exits(reconciler("db", "upgrade", "--store", f"sqlite:///{tmp_path}/nowhere/store.db"), 4, saying="no folder")
    assert "hush" not in reconciler("get", "jobs", "--store", "postgresql://nobody:hush@127.0.0.1:1/x").stderr


@pytest.mark.parametrize(
    "line",
    [
        ["bogus"],
        ["runs", "show", "x"],
        ["runs", "show", "99999999999999999999999"],
        ["runs", "wait", "0"],
        ["runs", "list", "--state", "Bogus"],
        ["trigger"],
        ["trigger", "report", "-p", "novalue"],
        ["trigger", "report", "-p", "unknown=1"],
        ["trigger", "report", "--slot", "tomorrow"],
        ["trigger", "report", "--slot", "0001-01-01T00:00:00+14:00"],
        ["trigger", "report", "--idempotency-key", ""],
        ["trigger", "report", "-p", "x=" + "[" * 20_000],
        ["why", "report", "0001-01-01T00:00:00+14:00"],
        ["pause", "report", "--until", "9999-12-31T23:59:59-14:00"],
        ["pause", "report", "--for", "9999999d"],
        ["pause", "report", "--for", "1.0e300s"],
        ["runs", "wait", "1", "--timeout", "-5.5s"],
        ["schedule", "next", "report", "--tz", "Europe/Berlin"],
        ["schedule", "next", "--every", "1h", "--after", "9999-12-31T23:00:00Z"],
        ["reconcile", "--dry-run", "--now", "0001-01-01T00:00:00+14:00"],
        ["reconcile", "--against", "HEAD"],
        ["reconcile", "--dry-run", "--against", "no-such-ref"],
        ["worker", "--queues", ","],
        ["worker", "--slots", "0"],
        ["worker", "--lease", "1s"],
        ["serve", "--leader-ttl", "soon"],
        ["get", "jobs", "--store", "mysql://x"],
        ["get", "jobs", "--limit", "0"],
    ],
)
def test_wrong_usage_exits_64(
    stored_for_all: Path, line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(stored_for_all)
    assert run(line) == 64
    assert "Traceback" not in capsys.readouterr().err


def test_arguments_that_are_no_text_are_wrong_usage(reconciler: Run, stored: Path) -> None:
    exits(reconciler("trigger", b"\xff"), 64, saying="no UTF-8")
    exits(reconciler("trigger", "report", "--idempotency-key", b"\xff"), 64)


def test_an_output_that_takes_nothing_more(reconciler: Run, stored: Path) -> None:
    exits(reconciler("runs", "list", "-o", "json", shell_end="> /dev/full"), 4)
    exits(reconciler("validate", shell_end="> /dev/full"), 4)
    exits(reconciler("get", "jobs", "-o", "json", shell_end="| true"), 0)


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """List every command and what stands below it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield (*path, name)
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)


@pytest.mark.parametrize("command", list(commands(root)), ids=" ".join)
def test_help_shows_examples_one_to_a_line(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    shown = capsys.readouterr().out

    examples = shown.split("Examples:\n", 1)[1].split("\n\n", 1)[0].splitlines()
    assert all(line.strip().startswith(("reconciler", "reconcile", "eval", "source")) for line in examples)
    assert "\\b" not in shown


def test_a_key_that_stands_for_another_request_is_refused(reconciler: Run, stored: Path) -> None:
    key = ("--idempotency-key", "ticket-4711")
    first = reconciler("trigger", "report", *key)

    exits(reconciler("trigger", "report", *key), 0, saying="exists already")
    told = "stands for run 1 of 'report', which has another slot"
    exits(reconciler("trigger", "report", "--slot", "2026-12-31T23:00:00Z", *key), 3, saying=told)
    (stored / "jobs.d" / "other.yaml").write_text(document("other"))
    exits(reconciler("reconcile"), 0)
    told = "stands for run 1 of 'report', which is of another job and has another slot: use another key"
    exits(reconciler("trigger", "other", "--slot", "2026-12-31T23:00:00Z", *key), 3, saying=told)
    assert first.stdout == "run 1 created\n"


def test_a_value_that_begins_like_json_and_is_none_is_refused(reconciler: Run, stored: Path) -> None:
    exits(reconciler("trigger", "report", "-p", "days=[1"), 64, saying="'[1', is no JSON")


@pytest.mark.parametrize("line", ["validate", "reconcile --dry-run", "reconcile", "serve"])
@pytest.mark.parametrize("named", [True, False])
def test_a_source_that_is_not_there_is_refused_in_the_same_words_by_all(
    reconciler: Run, copied: Path, line: str, named: bool
) -> None:
    if not named:
        shutil.rmtree(copied / "jobs.d")
    path, arguments = ("elsewhere", ["--source-moved", "elsewhere"]) if named else ("jobs.d", [])
    if line in {"validate", "reconcile --dry-run"}:
        arguments = arguments[1:]
    told = f"{path} cannot be read: no such file or directory: nothing is applied and nothing pruned. Name the folder"

    exits(reconciler(*line.split(), *arguments), 3, saying=told)
    exits(reconciler("get", "jobs"), 0, saying="report")


def test_doctor_fails_a_source_that_is_not_there_unless_the_machine_needs_none(reconciler: Run, stored: Path) -> None:
    shutil.rmtree(stored / "jobs.d")

    shown = reconciler("doctor")
    exits(shown, 4, saying="jobs.d cannot be read: no such file or directory: nothing is applied and nothing pruned")
    assert re.search(r"^fail +source default ", shown.stdout, re.MULTILINE)
    exits(reconciler("doctor", "--worker"), 0)


def test_a_second_dev_in_a_folder_is_refused_naming_the_first(reconciler: Run, stored: Path) -> None:
    (stored / ".reconciler" / "dev.lock").touch()
    with alone.hold(stored / ".reconciler" / "dev.lock"):
        exits(reconciler("dev"), 64, saying=f"another `reconciler dev` works in .reconciler (process {os.getpid()})")


def test_a_run_that_nobody_serves_says_so(reconciler: Run, stored: Path) -> None:
    run_id = reconciler("trigger", "report").stdout.split()[1]

    exits(reconciler("runs", "show", run_id), 0, saying="no living worker serves queue 'default'")
    exits(reconciler("trigger", "report", "--wait", "--timeout", "3s"), 4, saying="no living worker serves")


def test_a_folder_that_may_not_be_written(reconciler: Run, tmp_path: Path) -> None:
    """As root everything may be written; a file in the way is in the way for everybody."""
    (tmp_path / ".reconciler").write_text("in the way")

    exits(reconciler("db", "upgrade"), 4)
    exits(reconciler("dev"), 64)


def test_every_command_is_listed_with_what_it_is_for(reconciler: Run) -> None:
    shown = reconciler("--help").stdout

    for command in _COMMANDS:
        assert f"\n  {command} " in shown
    assert os.linesep.join(shown.splitlines()[:1]).startswith("Usage: reconciler")
