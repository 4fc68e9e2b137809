"""The logs of runs on both databases: written while they run, whole when they are over, bounded, and never blocking."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.clock import SystemClock
from reconciler.model.log import OutputStream
from reconciler.store import logs
from reconciler.worker.events import StepFailed, StoreFailed
from reconciler.worker.lines import PART_BYTES, PART_LINES
from tests.worker.cast import Stage, command, python, staged

pytestmark = pytest.mark.timeout(60)

STDOUT, STDERR = OutputStream


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage
        assert stage.told(StepFailed) == []
        assert stage.told(StoreFailed) == []


def stored(stage: Stage, run_id: int) -> list[logs.LogRow]:
    return stage.store.database.read(lambda tx: logs.lines_of(tx, run_id, limit=100_000))


def texts(stage: Stage, run_id: int, stream: OutputStream | None = None) -> list[str]:
    return [row.text for row in stored(stage, run_id) if stream in {None, row.stream}]


def test_both_streams_are_kept_line_by_line_with_time_node_and_attempt(stage: Stage) -> None:
    before_us = SystemClock().now_us()
    run = stage.run(command("hello", "sh", "-c", "echo out; echo err >&2; printf 'no end'"))

    rows = stored(stage, run.id)
    assert sorted((row.stream, row.text) for row in rows) == [
        ("stderr", "err"),
        ("stdout", "no end"),
        ("stdout", "out"),
    ]
    assert {(row.node, row.attempt, row.fence) for row in rows} == {("n1", 1, 1)}
    assert [row.seq for row in rows] == [1, 2, 3]
    assert all(before_us <= row.at_us <= SystemClock().now_us() for row in rows)


def test_each_stream_keeps_its_order_however_they_interleave(stage: Stage) -> None:
    script = """
import os
for at in range(2000):
    os.write(1 + at % 2, f"{at}\\n".encode())
"""
    run = stage.run(python("both", script))

    assert texts(stage, run.id, STDOUT) == [str(at) for at in range(0, 2000, 2)]
    assert texts(stage, run.id, STDERR) == [str(at) for at in range(1, 2000, 2)]
    assert [row.seq for row in stored(stage, run.id)] == list(range(1, 2001))


def test_lines_are_there_while_the_job_runs(stage: Stage, tmp_path: Path) -> None:
    stage.store.apply(command("slow", "sh", "-c", f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done"))
    run = stage.store.trigger("slow")

    stage.turn_until(lambda: texts(stage, run) == ["begun"], seconds=5)

    assert stage.is_running(run)
    (tmp_path / "go").touch()
    stage.turn_until(lambda: stage.store.run(run).is_over)
    assert texts(stage, run) == ["begun"]


def test_the_last_line_is_there_when_the_run_is_seen_finished(stage: Stage) -> None:
    stage.store.apply(
        command("quick", "sh", "-c", 'echo "$RECONCILER_RUN_ID first"; echo "$RECONCILER_RUN_ID last" >&2')
    )
    runs = [stage.store.trigger("quick") for _ in range(60)]
    open_runs = set(runs)

    def all_seen() -> bool:
        for run in sorted(open_runs):
            if stage.store.run(run).is_over:
                assert set(texts(stage, run)) == {f"{run} first", f"{run} last"}
                open_runs.remove(run)
        return not open_runs

    stage.turn_until(all_seen)


@pytest.mark.parametrize("ending", ["exit 0", "kill -KILL $$"])
def test_a_flood_is_bounded_does_not_hold_the_job_up_and_its_end_is_kept(stage: Stage, ending: str) -> None:
    """R8: 180 MB in twenty million lines, and a last word on the other stream."""
    run = stage.run(command("flood", "sh", "-c", f"yes 12345678 | head -c 180000000; echo the end >&2; {ending}"))

    rows = stored(stage, run.id)
    (marker,) = (at for at, row in enumerate(rows) if row.text.startswith("[reconciler: "))
    assert run.state == ("Succeeded" if ending == "exit 0" else "Failed")
    assert texts(stage, run.id, STDERR) == ["the end"]
    assert rows[marker + 1].text == rows[marker - 1].text == "12345678"
    assert len(rows) <= 2 * PART_LINES + 1
    assert sum(len(row.text) for row in rows) <= 2 * PART_BYTES + 100
    left_out = re.findall(r"\d+", rows[marker].text.replace(",", ""))
    kept = sum(len(row.text) + 1 for row in rows if row.stream is STDOUT and row is not rows[marker])
    assert int(left_out[0]) == 180_000_000 - kept
    assert int(left_out[1]) == 20_000_000 - kept // 9
    assert "bytes left out" in stage.attempts(run.id)[0].output


@pytest.mark.case("PRC-06")
def test_output_that_is_no_text_becomes_lines_and_nothing_after_it_is_lost(stage: Stage) -> None:
    split = "printf '\\342\\202'; sleep 0.3; printf '\\254 tab\\there\\033[31m\\n'"
    run = stage.run(command("binary", "bash", "-c", f"printf 'a\\200\\262\\377\\000b\\n'; {split}; echo end"))

    assert texts(stage, run.id) == ["a���\\x00b", "€ tab\there\\x1b[31m", "end"]


def test_a_line_that_is_too_long_is_cut_and_none_of_it_is_lost(stage: Stage) -> None:
    run = stage.run(python("long", "print('é' * 20_000, end='\\nnext')"))

    lines = texts(stage, run.id)
    assert [len(line.encode()) <= 16_384 for line in lines] == [True] * 4
    assert "".join(lines) == "é" * 20_000 + "next"


def test_each_attempt_has_lines_of_its_own(stage: Stage) -> None:
    script = 'echo "attempt $RECONCILER_ATTEMPT"; [ $RECONCILER_ATTEMPT = 2 ]'
    retry = {"maxAttempts": 2, "backoff": "Fixed", "initial": "1s"}
    stage.store.apply(command("again", "sh", "-c", script, retry=retry))
    run = stage.store.trigger("again")
    stage.turn_until(lambda: stage.store.promote() or stage.store.run(run).is_over)
    stage.turn_until(lambda: stage.store.run(run).is_over)

    assert [(row.attempt, row.fence, row.text) for row in stored(stage, run)] == [
        (1, 1, "attempt 1"),
        (2, 2, "attempt 2"),
    ]


def test_what_a_job_leaves_behind_is_told_in_its_log(stage: Stage) -> None:
    run = stage.run(command("daemon", "sh", "-c", "(setsid sleep 300 &); echo started"))

    assert texts(stage, run.id) == ["started", "[reconciler: 1 left-over processes were killed]"]


def test_the_lines_of_a_run_that_is_handed_back_are_kept(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path, drain_timeout_seconds=0.2) as stage:
        stage.store.apply(command("long", "sh", "-c", "trap 'echo stopped; exit 1' TERM; echo begun; sleep 300 & wait"))
        run = stage.store.trigger("long")
        stage.turn_until(lambda: texts(stage, run) == ["begun"])
        stage.worker.drain()
        stage.turn_until(lambda: stage.worker.is_done)

        assert stage.store.run(run).state == "Pending"
        assert texts(stage, run) == ["begun", "stopped"]
