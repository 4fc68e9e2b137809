"""`schedule`: when something fires, of a job or of a bare expression."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reconcile.cast import document

Ask = Callable[..., Any]
NIGHTLY = ("--cron", "30 2 * * *", "--tz", "America/New_York")
SPRING = "2025-03-08T17:00:00Z"


def test_the_next_times_of_a_bare_expression_are_given_as_documented(asked: Ask) -> None:
    line = (*NIGHTLY, "--after", SPRING, "--count", "3", "--gap", "RunAfter", "--overlap", "First", "--day-rule", "Or")

    assert asked("schedule", "next", *line) == {
        "formatVersion": "1.0",
        "fires": ["2025-03-09T07:00:00Z", "2025-03-10T06:30:00Z", "2025-03-11T06:30:00Z"],
    }


def test_an_interval_counts_from_its_anchor_strictly_after_the_instant(asked: Ask) -> None:
    line = ("--every", "90m", "--anchor", "2026-01-01T00:00:00Z", "--after", "2026-01-01T01:30:00Z", "--count", "2")

    assert asked("schedule", "next", *line)["fires"] == ["2026-01-01T03:00:00Z", "2026-01-01T04:30:00Z"]


def test_times_between_two_instants_include_the_second_and_not_the_first(asked: Ask) -> None:
    line = (
        "--every",
        "1h",
        "--anchor",
        "2026-01-01T00:00Z",
        "--after",
        "2026-01-01T00:00Z",
        "--until",
        "2026-01-01T02:00Z",
    )

    assert asked("schedule", "between", *line)["fires"] == ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]


def test_a_list_that_is_cut_off_says_so(asked: Ask, told: Ask) -> None:
    hours = ("--every", "1h", "--anchor", "2026-01-01T00:00Z", "--after", "2026-01-01T00:00Z")
    line = ("schedule", "between", *hours, "--until", "2026-01-01T03:00Z")

    assert "there are more than these 2; --limit takes up to 100,000" in told(*line, "--limit", "2")
    assert "there are more" not in told(*line, "--limit", "3")
    assert "truncated" not in asked(*line, "--limit", "3")


def test_a_live_job_is_asked_by_its_activation_and_every_trigger_of_it(home: Path, asked: Ask, told: Ask) -> None:
    both = [
        {"name": "hourly", "every": "1h", "anchor": "2026-01-01T00:00:00Z"},
        {"name": "daily", "cron": "30 7 * * *", "timeZone": "Europe/Berlin", "notAfter": "2030-01-02T00:00:00Z"},
    ]
    (home / "jobs.d" / "report.yaml").write_text(document("report", queue="reports", triggers=both))
    told("reconcile")
    line = ("report", "--after", "2030-01-01T05:00:00Z", "--count", "3")

    answer = asked("schedule", "next", *line)
    from_files = asked("schedule", "next", *line, "--files", "jobs.d")
    daily = asked("schedule", "next", *line, "--trigger", "daily")

    assert [(each["trigger"], each["slot"], each["local"]) for each in answer["slots"]] == [
        ("hourly", "2030-01-01T06:00:00Z", "Tue 2030-01-01T06:00:00+00:00"),
        ("daily", "2030-01-01T06:30:00Z", "Tue 2030-01-01T07:30:00+01:00"),
        ("hourly", "2030-01-01T07:00:00Z", "Tue 2030-01-01T07:00:00+00:00"),
    ]
    assert from_files == answer
    assert daily["fires"] == ["2030-01-01T06:30:00Z"]
    assert "TRIGGER" in told("schedule", "next", *line)


def test_runs_that_wait_for_their_jitter_are_shown_with_when_they_are_due(home: Path, asked: Ask, told: Ask) -> None:
    spread = [{"every": "1h", "anchor": "2026-01-01T00:00:00Z", "jitter": "10m"}]
    (home / "jobs.d" / "report.yaml").write_text(document("report", queue="reports", triggers=spread))
    told("reconcile")

    live = asked("schedule", "next", "report", "--after", "2030-01-01T00:00:00Z")
    from_files = asked("schedule", "next", "report", "--after", "2030-01-01T00:00:00Z", "--files", "jobs.d")

    assert live == from_files
    assert all(each["slot"] < each["due"] < each["slot"].replace(":00:00Z", ":10:00Z") for each in live["slots"])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ((), "name one of: a JOB, --cron EXPRESSION, --every DURATION"),
        (("report", "--cron", "* * * * *"), "name one of"),
        (("--cron", "61 * * * *"), "minute 61 is outside 0-59. Write 0-59, a list, a range or */n. (column 1)"),
        (("--cron", "0 0 * * *", "--tz", "PST"), 'unknown time zone "PST"'),
        (("--cron", "0 0 * * *", "--anchor", "2026-01-01T00:00:00Z"), "--anchor does not go with --cron"),
        (("--every", "1h", "--gap", "Skip"), "--gap does not go with --every"),
        (("--every", "soon"), "'soon' is no duration"),
        (("--every", "9999999d"), "'9999999d' is too long: write at most 99999d"),
        (("report", "--gap", "Skip"), "--gap does not go with a JOB: its triggers say so themselves"),
        (("--every", "1h", "--after", "yesterday"), "'yesterday' is no instant"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(told: Ask, line: tuple[str, ...], says: str) -> None:
    answer = told("schedule", "next", *line, code=64)

    assert says in answer
    assert "Traceback" not in answer


def test_unknown_jobs_and_triggers_are_not_found(home: Path, told: Ask) -> None:
    assert "there is no job 'reprot'" in told("schedule", "next", "reprot", code=1)
    assert "it has default" in told("schedule", "next", "report", "--trigger", "daily", code=1)
    assert "declares no sound job 'reprot'" in told("schedule", "next", "reprot", "--files", "jobs.d", code=1)
