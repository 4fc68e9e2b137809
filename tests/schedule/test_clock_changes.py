"""What each rule makes of the nights when clocks change, by hand."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.clock import iso, to_us
from reconciler.model.policy import Gap, Overlap
from reconciler.schedule.cron import parse
from reconciler.schedule.cronslots import CronOccurrences
from reconciler.schedule.zones import load_zone
from tests.cases import vectors

DOCS = Path(__file__).parents[2] / "docs" / "schedules.md"
DAY_US = 86_400 * 10**6
RULES: dict[str, tuple[Gap, Overlap]] = {
    "next_utc": (Gap.SKIP, Overlap.BOTH),
    "gap_run_after": (Gap.RUN_AFTER, Overlap.FIRST),
    "gap_shift": (Gap.SHIFT, Overlap.FIRST),
    "overlap_first_only": (Gap.RUN_AFTER, Overlap.FIRST),
    "overlap_second_only": (Gap.RUN_AFTER, Overlap.SECOND),
}
"""What the handed cases call them: their plain expectation takes the wall at its word."""


def us(text: str) -> int:
    return to_us(datetime.fromisoformat(text))


def trigger(expression: str, zone: str, gap: Gap = Gap.RUN_AFTER, overlap: Overlap = Overlap.FIRST) -> CronOccurrences:
    return CronOccurrences(parse(expression), load_zone(zone), gap, overlap)


def following(occurrences: CronOccurrences, after: str, count: int) -> list[str]:
    return [iso(slot) for slot in occurrences.between(us(after), us(after) + 1000 * DAY_US, limit=count)]


def preceding(occurrences: CronOccurrences, before: str, count: int) -> list[str]:
    found: list[int] = []
    at: int | None = us(before)
    while at is not None and len(found) < count and (at := occurrences.previous_before(at)) is not None:
        found.append(at)
    return [iso(slot) for slot in found]


def skipped(occurrences: CronOccurrences, after: str, until: str) -> list[str]:
    return [iso(slot) for slot in occurrences.skipped_between(us(after), us(until), limit=100)]


def _handed_rules() -> list[Any]:
    return [
        pytest.param(vector, rule, id=f"{case}-{at}-{rule}", marks=pytest.mark.case(case))
        for case in ("DST-01", "DST-02", "DST-04", "DST-07", "DST-09", "DST-11")
        for at, vector in enumerate(vectors(case))
        for rule in ("next_utc", *vector.get("alternatives_utc", {}))
    ]


@pytest.mark.parametrize(("vector", "rule"), _handed_rules())
def test_handed_vectors_hold_under_the_rule_they_name(vector: dict[str, Any], rule: str) -> None:
    expected = vector.get("alternatives_utc", {}).get(rule) or vector["next_utc"]

    occurrences = trigger(vector["expr"], vector["tz"], *RULES[rule])

    assert following(occurrences, vector["after_utc"], len(expected)) == expected


@pytest.mark.case("DST-01")
@pytest.mark.parametrize(("gap", "records"), [(Gap.SKIP, 1), (Gap.SHIFT, 0), (Gap.RUN_AFTER, 0)])
def test_a_skipped_slot_is_told_exactly_once(gap: Gap, records: int) -> None:
    occurrences = trigger("30 2 * * *", "America/New_York", gap)

    told = skipped(occurrences, "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z")

    assert told == ["2025-03-09T07:30:00Z"] * records
    assert told == [
        slot
        for hour in range(365 * 24)
        for slot in map(iso, occurrences.skipped_between(*_hour_of_2025(hour), limit=100))
    ]


def _hour_of_2025(hour: int) -> tuple[int, int]:
    start = us("2025-01-01T00:00:00Z") + hour * 3600 * 10**6
    return start, start + 3600 * 10**6


@pytest.mark.parametrize(
    ("expression", "zone", "stretch", "expected"),
    [
        # what falls on a slot of the same trigger is that slot
        ("0 2,3 * * *", "Europe/Berlin", ("2026-03-28T00:00:00Z", "2026-03-30T00:00:00Z"), []),
        ("30,45 2 * * *", "Europe/Berlin", ("2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"), ["2026-03-29T01:45:00Z"]),
        # elapsed time skips nothing
        ("30 * * * *", "Europe/Berlin", ("2026-03-28T00:00:00Z", "2026-03-30T00:00:00Z"), []),
        # seven hours on the ice: a gap longer than three
        ("0 3 * * *", "Antarctica/Vostok", ("1994-10-30T00:00:00Z", "1994-11-03T00:00:00Z"), ["1994-11-01T03:00:00Z"]),
        # a zone without changes
        ("30 2 * * *", "Asia/Kathmandu", ("2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z"), []),
    ],
)
def test_what_a_gap_skips(expression: str, zone: str, stretch: tuple[str, str], expected: list[str]) -> None:
    assert skipped(trigger(expression, zone, Gap.SKIP), *stretch) == expected


@pytest.mark.parametrize("gap", Gap)
def test_a_gap_of_more_than_three_hours_is_skipped_under_every_rule(gap: Gap) -> None:
    """Samoa left out 30 December 2011; Vostok once went seven hours forward."""
    apia = trigger("0 12 30 12 *", "Pacific/Apia", gap)
    vostok = trigger("0 3 * * *", "Antarctica/Vostok", gap)

    assert following(apia, "2011-01-01T00:00:00Z", 1) == ["2012-12-29T22:00:00Z"]
    assert skipped(apia, "2011-12-01T00:00:00Z", "2012-01-31T00:00:00Z") == ["2011-12-30T22:00:00Z"]
    assert skipped(vostok, "1994-10-01T00:00:00Z", "1994-12-01T00:00:00Z") == ["1994-11-01T03:00:00Z"]


@pytest.mark.parametrize(
    ("gap", "slot"), [(Gap.RUN_AFTER, "2011-10-27T18:00:00Z"), (Gap.SHIFT, "2011-10-27T19:30:00Z")]
)
def test_a_gap_of_three_hours_is_still_made_up_for(gap: Gap, slot: str) -> None:
    assert following(trigger("30 3 * * *", "Antarctica/Casey", gap), "2011-10-27T00:00:00Z", 1) == [slot]


@pytest.mark.parametrize(
    ("expression", "where", "before", "expected"),
    [
        (
            "30 1 * * *",
            ("America/New_York", Overlap.BOTH),
            "2025-11-03T00:00:00Z",
            ["2025-11-02T06:30:00Z", "2025-11-02T05:30:00Z", "2025-11-01T05:30:00Z"],
        ),
        (
            "30 1 * * *",
            ("America/New_York", Overlap.SECOND),
            "2025-11-02T06:30:00Z",
            ["2025-11-01T05:30:00Z", "2025-10-31T05:30:00Z"],
        ),
        # midnight goes forward: the day begins at one
        ("0 0 * * *", ("Africa/Cairo", Overlap.FIRST), "2024-04-26T00:00:00Z", ["2024-04-25T22:00:00Z"]),
        # asked in the second showing of an hour, of a schedule that comes once a year
        ("30 23 17 2 *", ("America/Sao_Paulo", Overlap.FIRST), "2018-02-18T02:10:00Z", ["2018-02-18T01:30:00Z"]),
        (
            "* * 29 2 *",
            ("UTC", Overlap.FIRST),
            "2026-01-01T00:00:00Z",
            ["2024-02-29T23:59:00Z", "2024-02-29T23:58:00Z"],
        ),
    ],
)
def test_the_way_back(expression: str, where: tuple[str, Overlap], before: str, expected: list[str]) -> None:
    zone, overlap = where
    assert preceding(trigger(expression, zone, Gap.RUN_AFTER, overlap), before, len(expected)) == expected


def test_nothing_fires_before_the_calendar_begins() -> None:
    assert trigger("0 0 1 1 *", "UTC").previous_before(us("0001-01-03T00:00:00Z")) is None


def test_the_nights_of_the_documentation() -> None:
    rows = re.findall(r"^\| `(\w+)`[^|]*\| ([-0-9TZ:, ]+) \|", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)

    told = {rule: [slot for slot in fires.split(", ") if slot != "-"] for rule, fires in rows}

    assert told.keys() == {*Gap, *Overlap}
    for gap in Gap:
        occurrences = trigger("30 2 * * *", "Europe/Berlin", gap)
        assert told[gap] == [
            iso(at) for at in occurrences.between(us("2026-03-28T23:00Z"), us("2026-03-29T22:00Z"), limit=9)
        ]
    for overlap in Overlap:
        occurrences = trigger("30 2 * * *", "Europe/Berlin", overlap=overlap)
        assert told[overlap] == [
            iso(at) for at in occurrences.between(us("2026-10-24T22:00Z"), us("2026-10-25T23:00Z"), limit=9)
        ]
