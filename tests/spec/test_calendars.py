"""Calendars of a tree: their iCalendar files, what is looked up, and how broken ones hold jobs back."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from reconciler.model.kinds import Calendar
from reconciler.model.tree import Tree
from reconciler.schedule.resolve import holidays_of
from reconciler.spec.load import load_tree
from reconciler.spec.source import Limits

JOB = """---
apiVersion: reconciler/v1
kind: Job
metadata: {name: nightly}
spec:
  handler: {type: noop}
  triggers: [{cron: 0 3 * * *, calendars: [{name: feasts}]}]
"""


def ics(*events: str) -> str:
    body = "".join(f"BEGIN:VEVENT\r\nUID:{number}\r\n{event}END:VEVENT\r\n" for number, event in enumerate(events))
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Northstar//feasts//EN\r\n{body}END:VCALENDAR\r\n"


def event(*lines: str) -> str:
    return "".join(f"{line}\r\n" for line in lines)


def tree(folder: Path, text: str, *, path: str = "feasts.ics", spec: str = "", **limits: int) -> Tree:
    calendar = f"""apiVersion: reconciler/v1
kind: Calendar
metadata: {{name: feasts}}
spec: {{windows: [{{ical: {path}}}]{spec}}}
"""
    (folder / "calendars.yaml").write_text(calendar + JOB, encoding="utf-8")
    (folder / "feasts.ics").write_bytes(text.encode())
    return load_tree(folder, limits=Limits(**limits))


def windows(found: Tree) -> Sequence[dict[str, Any]]:
    assert [problem.what for problem in found.problems] == []
    (calendar,) = (each.declared for each in found.definitions if isinstance(each.declared, Calendar))
    return cast("Sequence[dict[str, Any]]", calendar.spec["windows"][0]["windows"])


def test_events_become_days_and_instants(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        ics(
            event("DTSTART;VALUE=DATE:20261224", "DTEND;VALUE=DATE:20261227"),
            event("DTSTART;VALUE=DATE:20260501"),
            event("DTSTART:20261001T100000", "DTEND:20261001T120000"),
            event("DTSTART:20261101T220000Z", "DURATION:PT3H"),
            event("DTSTART;VALUE=DATE:20260704", "STATUS:CANCELLED"),
        ),
        spec=", timeZone: Europe/Berlin",
    )

    assert windows(found) == [
        {"dates": ["2026-05-01", "2026-12-24", "2026-12-25", "2026-12-26"]},
        {"from": "2026-10-01T08:00:00Z", "to": "2026-10-01T10:00:00Z"},
        {"from": "2026-11-01T22:00:00Z", "to": "2026-11-02T01:00:00Z"},
    ]


def test_repeated_events_are_written_out_without_their_exceptions(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        ics(event("DTSTART;VALUE=DATE:20260105", "RRULE:FREQ=WEEKLY;COUNT=4", "EXDATE;VALUE=DATE:20260112")),
    )

    assert windows(found) == [{"dates": ["2026-01-05", "2026-01-19", "2026-01-26"]}]


def test_an_edited_file_changes_the_calendar_and_the_files_of_the_tree(tmp_path: Path) -> None:
    first = tree(tmp_path, ics(event("DTSTART;VALUE=DATE:20260501")))
    second = tree(tmp_path, ics(event("DTSTART;VALUE=DATE:20260502")))

    digests = [{each.key: each.declared.digest for each in found.definitions} for found in (first, second)]
    assert digests[0]["Calendar", "feasts"] != digests[1]["Calendar", "feasts"]
    assert digests[0]["Job", "nightly"] == digests[1]["Job", "nightly"]
    assert {each.path for each in first.files} == {"calendars.yaml", "feasts.ics"}
    assert first.files != second.files


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be read"),
        ("hello", "cannot be read"),
        (ics(event("SUMMARY:when?")), "an event has no 'DTSTART'"),
        (ics(event("DTSTART:2026")), "cannot be read"),
        (ics(event("DTSTART:20260101T000000Z", "RRULE:FREQ=MINUTELY")), "repeats within a day"),
        (ics(event("DTSTART:20260101T000000Z", "RRULE:FREQ=DAILY;BYHOUR=1,2")), "repeats within a day"),
        (ics(event("DTSTART:20260101T000000Z", "RRULE:FREQ=NEVERLY")), ""),
        (
            ics(event("DTSTART;VALUE=DATE:20260101", "DURATION:P9999D", "RRULE:FREQ=DAILY")),
            "more than 20,000 days",
        ),
        (ics(event("DTSTART;VALUE=DATE:00010101", "RRULE:FREQ=DAILY")), "begins before 1900"),
        (ics(*[event("DTSTART:20260101T000000Z", "RRULE:FREQ=DAILY")] * 201), "more than 200 repeated events"),
        (
            ics(*[event(f"DTSTART:20260101T{hour:02}0000Z", "RRULE:FREQ=DAILY", "DURATION:PT1H") for hour in (1, 2)]),
            "more than 20,000 days",
        ),
    ],
)
def test_a_bad_file_breaks_its_calendar_and_holds_its_jobs_back(tmp_path: Path, text: str, told: str) -> None:
    found = tree(tmp_path, text)

    (problem,) = found.errors
    assert (problem.rule, problem.place.line) == ("calendar.ical", 4)
    assert problem.what.startswith("feasts.ics: ")
    assert told in problem.what
    assert set(found.broken_names) == {("Calendar", "feasts"), ("Job", "nightly")}


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    found = tree(tmp_path, ics(event("DTSTART;VALUE=DATE:20260501")) + "x" * 2000, file_bytes=1000)

    assert [problem.what for problem in found.errors] == ["feasts.ics: it has more than 1,000 bytes"]


@pytest.mark.parametrize("path", ["../feasts.ics", "sub/feasts.ics", "feasts.ICS", "feast.ics"])
def test_only_files_of_the_tree_are_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "jobs.d").mkdir()
    (tmp_path / "feasts.ics").write_text(ics(event("DTSTART;VALUE=DATE:20260501")), encoding="utf-8")

    found = tree(tmp_path / "jobs.d", ics(), path=path)

    assert {problem.rule for problem in found.errors} <= {"calendar.no-file", "schema.pattern"}
    assert len(found.errors) == 1


def test_an_installation_without_the_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "calendars.yaml").write_text(
        "apiVersion: reconciler/v1\nkind: Calendar\nmetadata: {name: feasts}\n"
        "spec: {windows: [{holidays: {country: DE}}]}\n",
        encoding="utf-8",
    )
    holidays_of.cache_clear()
    monkeypatch.setitem(sys.modules, "holidays", None)

    (problem,) = load_tree(tmp_path).errors

    assert problem.rule == "calendar.not-installed"
    assert "reconciler-scheduler[holidays]" in problem.mend


def test_a_zone_of_the_settings_holds_for_calendars_that_name_none(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: reconciler/v1\nkind: Calendar\nmetadata: {name: feasts}\nspec: {windows: [{weekdays: [Sat]}]}\n",
        encoding="utf-8",
    )

    plain, zoned = (load_tree(tmp_path, time_zone=zone).definitions[0].declared for zone in ("UTC", "Asia/Tokyo"))

    assert isinstance(zoned, Calendar)
    assert zoned.spec["timeZone"] == "Asia/Tokyo"
    assert plain.digest == zoned.digest
