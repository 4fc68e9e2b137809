from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reconciler.clock import from_us, iso, to_us
from reconciler.model.definition import AtTiming, CronTiming, EveryTiming, timing_from
from reconciler.model.policy import DayRule, Gap, Overlap
from reconciler.model.trigger import frame_from
from reconciler.schedule import TimingError
from reconciler.schedule.cron import CronError
from reconciler.schedule.cronslots import CronOccurrences
from reconciler.schedule.occurrences import Occurrences, compile_timing
from reconciler.schedule.timeline import timeline
from reconciler.schedule.zones import load_zone
from tests.cases import load_case, vectors
from tests.schedule.strategies import busy_expressions, expressions, instants, zones

CASES = (
    "CRON-01",
    "CRON-04",
    "CRON-05",
    "CRON-07",
    "DST-01",
    "DST-02",
    "DST-04",
    "DST-07",
    "DST-09",
    "DST-11",
    "MIS-04",
)
HOUR_US = 3600 * 10**6


def us(text: str) -> int:
    return to_us(datetime.fromisoformat(text))


def cron(expression: str, zone: str = "UTC") -> Occurrences:
    return compile_timing(CronTiming(expression, zone), activated_us=0)


def following(occurrences: Occurrences, after: str, count: int) -> list[str]:
    """Give the next `count` slots, one by one."""
    slots: list[str] = []
    at = us(after)
    while len(slots) < count and (slot := occurrences.next_after(at)) is not None:
        slots.append(iso(slot))
        at = slot
    return slots


def _handed_vectors() -> list[Any]:
    return [
        pytest.param(vector, id=f"{case}-{at}", marks=pytest.mark.case(case))
        for case in CASES
        for at, vector in enumerate(vectors(case))
    ]


@pytest.mark.parametrize("vector", _handed_vectors())
def test_handed_vectors_hold_under_our_default_policies(vector: dict[str, Any]) -> None:
    """Defaults: RunAfter in a gap, First in an overlap (format.md)."""
    alternatives = vector.get("alternatives_utc", {})
    expected = alternatives.get("gap_run_after") or alternatives.get("overlap_first_only") or vector["next_utc"]

    assert following(cron(vector["expr"], vector["tz"]), vector["after_utc"], len(expected)) == expected


def _compiled(expression: str, zone: ZoneInfo) -> CronOccurrences:
    try:
        occurrences = cron(expression, zone.key)
    except CronError:
        assume(False)
        raise
    assert isinstance(occurrences, CronOccurrences)
    return occurrences


@pytest.mark.case("DST-11")
@given(st.data())
@settings(max_examples=200, deadline=None)
def test_the_next_slot_is_always_later(data: st.DataObject) -> None:
    """2,000 random starts, half of them within three hours of a clock change."""
    zone = data.draw(zones())
    occurrences = _compiled(data.draw(expressions()), zone)
    seed = to_us(data.draw(instants(zone)))

    for start in [seed + at * at * at * 4 * 10**6 for at in range(-5, 5)]:
        first = occurrences.next_after(start)
        assert first is not None
        second = occurrences.next_after(first)

        assert first > start
        assert second is not None
        assert second > first


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_slots_of_two_stretches_are_the_slots_of_both(data: st.DataObject) -> None:
    """S5: slots(a,b) ∪ slots(b,c) = slots(a,c)."""
    zone = data.draw(zones())
    occurrences = _compiled(data.draw(busy_expressions()), zone)
    at = to_us(data.draw(instants(zone)))
    a, b, c = sorted(at + data.draw(st.integers(0, 9 * HOUR_US)) for _ in range(3))

    whole = occurrences.between(a, c, limit=100_000)

    assert whole == occurrences.between(a, b, limit=100_000) + occurrences.between(b, c, limit=100_000)
    assert all(earlier < later for earlier, later in pairwise(whole))


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # two local times in one gap fall on one instant, and the civil time at its end joins them
        (
            "0,15,30,45 2 * * *",
            "Europe/Berlin",
            "2026-03-29T00:00:00Z",
            ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"],
        ),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]),
        # a gap longer than three hours runs nothing: Apia had no 30 December 2011
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"]),
        # a star in the hour follows elapsed time
        ("30 */2 * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", ["2026-03-29T02:30:00Z"]),
        ("0 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", ["2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]),
        ("30 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", ["2026-04-04T14:30:00Z", "2026-04-04T15:00:00Z"]),
        # the hour that midnight repeats, far from the next date of a rare schedule
        ("30 */23 17 2 *", "America/Sao_Paulo", "2018-02-18T01:45:00Z", ["2018-02-18T02:30:00Z"]),
    ],
)
def test_clock_changes_by_hand(expression: str, zone: str, after: str, expected: list[str]) -> None:
    assert following(cron(expression, zone), after, len(expected)) == expected


@pytest.mark.case("MIS-12")
def test_an_interval_counts_from_its_activation_whoever_asks_and_when() -> None:
    occurrences = compile_timing(EveryTiming(7 * 24 * HOUR_US, None), activated_us=us("2026-01-05T00:00:00Z"))

    by_restarts: list[str] = []
    for day in range(21):  # a restart each day knows nothing but the activation and the cursor
        since = us("2026-01-05T00:00:00Z") + day * 24 * HOUR_US
        by_restarts += [iso(slot) for slot in occurrences.between(since, since + 24 * HOUR_US, limit=10)]

    assert by_restarts == ["2026-01-12T00:00:00Z", "2026-01-19T00:00:00Z", "2026-01-26T00:00:00Z"]


def test_an_interval_with_an_anchor_starts_there() -> None:
    occurrences = compile_timing(EveryTiming(HOUR_US, "2026-01-01T00:30:00+01:00"), activated_us=0)

    assert following(occurrences, "2020-01-01T00:00:00Z", 2) == ["2025-12-31T23:30:00Z", "2026-01-01T00:30:00Z"]
    assert following(occurrences, "2026-01-01T00:30:00Z", 1) == ["2026-01-01T01:30:00Z"]


@given(st.integers(1, 10**15), st.integers(0, 10**16), st.integers(-(10**15), 10**17))
@settings(max_examples=300, deadline=None)
def test_an_interval_s_slots_lie_on_its_grid(interval_us: int, activated_us: int, after_us: int) -> None:
    slot = compile_timing(EveryTiming(interval_us, None), activated_us=activated_us).next_after(after_us)

    assert slot is not None
    assert slot > max(after_us, activated_us)
    assert (slot - activated_us) % interval_us == 0
    assert slot - interval_us <= max(after_us, activated_us)


def test_a_one_off_fires_once() -> None:
    occurrences = compile_timing(AtTiming("2026-12-31T23:00:00+01:00", "UTC"), activated_us=0)

    assert following(occurrences, "2026-01-01T00:00:00Z", 3) == ["2026-12-31T22:00:00Z"]
    assert occurrences.between(us("2026-12-31T22:00:00Z"), us("2027-01-01T00:00:00Z"), limit=5) == []


@pytest.mark.parametrize(
    ("at", "instant"),
    [
        ("2026-07-01T12:00", "2026-07-01T10:00:00Z"),
        ("2026-07-01T12:00:30.5", "2026-07-01T10:00:30.500000Z"),
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z"),
        ("2026-10-25T02:30:00-05:00", "2026-10-25T07:30:00Z"),
    ],
)
def test_a_one_off_may_be_local_and_takes_the_first_of_two_equal_times(at: str, instant: str) -> None:
    assert following(compile_timing(AtTiming(at, "Europe/Berlin"), activated_us=0), "2026-01-01T00:00:00Z", 1) == [
        instant
    ]


@pytest.mark.case("YML-07")
@pytest.mark.parametrize(
    ("at", "rule"),
    [
        ("2026-03-29T02:30:00", "timing.no-such-time"),
        ("2026-12-31", "timing.at"),
        ("2026-02-30T00:00:00Z", "timing.at"),
        ("2026-12-31T24:00:00Z", "timing.at"),
        ("2026-12-31 23:00:00Z", "timing.at"),
        ("2026-12-31T23:00:00+25:00", "timing.at"),
        ("2026-12-31T23:00:00.1234567Z", "timing.at"),
        ("2026-12-31T23:00.5Z", "timing.at"),
        ("20261231T230000Z", "timing.at"),
        ("2026-W53-4T23:00:00Z", "timing.at"),
        ("1026-12-31T23:00:00Z", "timing.at"),
        ("not-a-date", "timing.at"),
        ("٢٠٢٦-12-31T23:00:00Z", "timing.at"),
        ("", "timing.at"),
    ],
)
def test_a_one_off_that_names_no_instant_is_refused(at: str, rule: str) -> None:
    with pytest.raises(TimingError) as caught:
        compile_timing(AtTiming(at, "Europe/Berlin"), activated_us=0)

    assert caught.value.rule == rule


def test_an_anchor_needs_an_offset() -> None:
    with pytest.raises(TimingError, match='Write "2026-01-01T00:00:00Z"'):
        compile_timing(EveryTiming(HOUR_US, "2026-01-01T00:00:00"), activated_us=0)


def test_the_way_back_of_intervals_and_one_offs() -> None:
    hourly = compile_timing(EveryTiming(HOUR_US, "2026-01-01T00:30:00Z"), activated_us=0)
    once = compile_timing(AtTiming("2026-01-01T00:30:00Z", "UTC"), activated_us=0)

    assert hourly.previous_before(us("2026-01-01T02:30:00Z")) == us("2026-01-01T01:30:00Z")
    assert hourly.previous_before(us("2026-01-01T00:30:00Z")) is None
    assert once.previous_before(us("2026-01-01T00:30:01Z")) == us("2026-01-01T00:30:00Z")
    assert once.previous_before(us("2026-01-01T00:30:00Z")) is None
    assert hourly.skipped_between(0, us("2030-01-01T00:00:00Z"), limit=9) == []
    assert once.skipped_between(0, us("2030-01-01T00:00:00Z"), limit=9) == []


def test_a_timing_s_own_rules_reach_its_slots() -> None:
    timing = CronTiming("30 2 13 * 5", "Europe/Berlin", gap=Gap.SKIP, overlap=Overlap.BOTH, day_rule=DayRule.AND)

    assert following(compile_timing(timing, activated_us=0), "2026-01-01T00:00:00Z", 2) == [
        "2026-02-13T01:30:00Z",
        "2026-03-13T01:30:00Z",
    ]


def test_hashed_values_come_from_the_seed() -> None:
    timing = CronTiming("H H * * *", "UTC")

    slots = {
        name: compile_timing(timing, activated_us=0, seed=name).next_after(0)
        for name in ("daily-sales-report", "upkeep")
    }

    assert slots["daily-sales-report"] == (12 * 60 + 6) * 60 * 10**6
    assert slots["upkeep"] != slots["daily-sales-report"]


def test_lists_of_slots_are_bounded() -> None:
    assert len(cron("* * * * *").between(0, us("2026-01-01T00:00:00Z"), limit=7)) == 7


def test_nothing_fires_after_the_end_of_the_calendar() -> None:
    assert cron("0 0 1 1 *").next_after(us("9998-12-31T00:00:00Z")) is None
    assert compile_timing(EveryTiming(HOUR_US, None), activated_us=us("9998-12-31T23:30:00Z")).next_after(0) is None


def test_the_slots_of_every_zone_are_whole_instants() -> None:
    zone = load_zone("Africa/Monrovia")  # offset -0:44:30 until 1972
    slot = cron("0 12 * * *", zone.key).next_after(to_us(datetime(1971, 6, 1, tzinfo=UTC)))

    assert slot is not None
    assert from_us(slot) == datetime(1971, 6, 1, 12, 44, 30, tzinfo=UTC)


def test_the_cases_used_here_are_about_cron_and_clocks() -> None:
    assert {load_case(case)["area"] for case in CASES} == {"cron", "dst-timezone", "misfire-overlap"}


def test_a_gap_that_is_the_last_thing_before_not_after_is_a_slot() -> None:
    """Otherwise nothing would ever record that the clocks skipped it."""
    document = {
        "cron": "30 2 * * *",
        "timeZone": "America/New_York",
        "dst": {"gap": "Skip"},
        "notAfter": "2027-03-14T12:00:00Z",
    }
    line = timeline(timing_from(document), frame_from(document), activated_us=0)
    before_us, gap_us = (to_us(datetime.fromisoformat(f"2027-03-{day}T07:30:00Z")) for day in (13, 14))

    assert line.next_after(before_us) == gap_us
    assert line.next_after(gap_us) is None
