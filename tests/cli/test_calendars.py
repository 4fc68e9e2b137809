"""Calendars at the command line: declared, applied, looked at, planned with, on each store."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.schedule import resolve
from tests.reconcile.cast import document

Ask = Callable[..., Any]
CLOSED = {"from": "2020-01-01", "to": "2090-01-01"}
SUMMER = {"yearly": {"from": "07-01", "to": "08-31"}}


def declare(home: Path, *windows: dict[str, Any], **spec: Any) -> None:
    calendar = {
        "apiVersion": "reconciler/v1",
        "kind": "Calendar",
        "metadata": {"name": "freeze"},
        "spec": {"windows": list(windows), **spec},
    }
    (home / "jobs.d" / "calendars.yaml").write_text(yaml.safe_dump(calendar))


@pytest.fixture
def minded(home: Path, told: Callable[..., str]) -> Path:
    declare(home, SUMMER)
    trigger = {"cron": "0 12 1 7 *", "calendars": [{"name": "freeze", "action": "Defer"}]}
    (home / "jobs.d" / "yearly.yaml").write_text(document("yearly", triggers=[trigger]))
    told("reconcile")
    return home


def test_a_calendar_is_listed_and_described(minded: Path, asked: Ask, told: Callable[..., str]) -> None:
    (row,) = asked("get", "calendars")["items"]
    assert (row["name"], row["mode"], row["jobs"], row["resolvedWith"]) == ("freeze", "Blackout", ["yearly"], None)
    assert row["until"] is not None

    described = asked("describe", "calendar", "freeze")
    assert described["windows"] == [SUMMER]
    assert len(described["closures"]) == 5
    assert all(each["until"].endswith("-09-01T00:00:00Z") for each in described["closures"])
    assert "closed next" in told("describe", "calendar", "freeze")
    assert "there is no calendar" in told("describe", "calendar", "nope", code=1)


def test_a_calendar_that_never_opens_has_one_closure_without_an_end(minded: Path, asked: Ask, told: Ask) -> None:
    declare(minded, {"weekdays": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]})
    (minded / "jobs.d" / "yearly.yaml").write_text(document("yearly", triggers=[{"cron": "0 12 1 7 *"}]))
    told("reconcile")

    described = asked("describe", "calendar", "freeze")

    assert (described["state"], described["until"], described["jobs"]) == ("Closed", None, [])
    assert [each["until"] for each in described["closures"]] == [None]


def test_the_fires_of_a_job_are_those_that_its_calendar_leaves(minded: Path, asked: Ask, told: Ask) -> None:
    live = asked("schedule", "next", "yearly", "--after", "2027-01-01T00:00Z", "--count", "1")
    files = asked("schedule", "next", "yearly", "--files", "jobs.d", "--after", "2027-01-01T00:00Z", "--count", "1")

    assert live["fires"] == files["fires"] == ["2027-07-01T12:00:00Z"]
    assert [each["due"] for each in live["slots"]] == ["2027-09-01T00:00:00Z"]
    (trigger,) = asked("describe", "job", "yearly")["triggers"]
    assert all(each.endswith("-07-01T12:00:00Z") for each in trigger["nextFireTimes"])


def test_a_dry_run_shows_what_a_changed_calendar_takes_away(minded: Path, told: Callable[..., str]) -> None:
    (minded / "jobs.d" / "daily.yaml").write_text(
        document("daily", triggers=[{"cron": "0 12 * * *", "calendars": [{"name": "freeze"}]}])
    )
    told("reconcile")
    declare(minded, {"weekdays": ["Sat", "Sun"]})

    planned = json.loads(told("reconcile", "--dry-run", "--now", "2026-12-01T00:00:00Z", "-o", "json"))

    (change,) = (each for each in planned["changes"] if each["kind"] == "Calendar")
    lost = {each["name"]: each["fireTimes"]["lost"]["count"] for each in change["jobs"]}
    assert lost == {"daily": 4, "yearly": 0}


def test_holidays_that_the_library_dates_otherwise_now_are_told(
    minded: Path, asked: Ask, told: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(minded, {"holidays": {"country": "DE"}}, timeZone="Europe/Berlin")
    told("reconcile")
    assert asked("describe", "calendar", "freeze")["outdated"] is None
    assert asked("describe", "calendar", "freeze")["resolvedWith"].startswith("holidays ")

    monkeypatch.setattr(resolve, "holidays_of", lambda **_: ["2027-02-02"])

    assert "edit the calendar to take them" in asked("describe", "calendar", "freeze")["outdated"]
    assert "edit the calendar to take them" in told("doctor", code=0)


def test_validate_warns_of_the_coming_years_clock_changes_until_the_rule_is_written(
    home: Path, told: Callable[..., str]
) -> None:
    trigger: dict[str, Any] = {"cron": "30 2 * * *", "timeZone": "Europe/Berlin"}
    job = home / "jobs.d" / "nightly.yaml"
    job.write_text(document("nightly", triggers=[trigger]))

    warned = told("validate", "--now", "2026-12-01T00:00Z")
    assert "on 2027-03-28 the clocks of Europe/Berlin skip 02:30: it fires as soon as" in warned
    assert "on 2027-10-31 the clocks of Europe/Berlin show 02:30 twice: it fires the first time only" in warned
    told("validate", "--strict", "--now", "2026-12-01T00:00Z", code=1)

    job.write_text(document("nightly", triggers=[{**trigger, "dst": {"gap": "Skip", "overlap": "First"}}]))
    assert "warning" not in told("validate", "--strict", "--now", "2026-12-01T00:00Z")


def test_a_schedule_notes_where_the_clocks_change(told: Callable[..., str]) -> None:
    line = ("schedule", "next", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--count", "2")

    assert "skip 02:30" in told(*line, "--after", "2027-03-27T12:00Z")
    assert "show 02:30 twice" in told(*line, "--after", "2027-10-30T12:00Z", "--overlap", "Both")
    assert "clocks" not in told(*line, "--after", "2027-05-30T12:00Z")
    assert "clocks" not in told(
        "schedule", "next", "--cron", "30 * * * *", "--tz", "Europe/Berlin", "--after", "2027-03-27T23:00Z"
    )
