"""Calendars against a reading of their windows minute by minute, which shares no code with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.clock import SECOND_US, from_us, to_us
from reconciler.model.definition import CronTiming, EveryTiming
from reconciler.model.policy import CalendarAction, DayRule, Gap, Overlap
from reconciler.model.run import SkipReason
from reconciler.model.trigger import CalendarUse, Frame
from reconciler.schedule.calendar import NEVER, WEEKDAYS, calendar_from
from reconciler.schedule.occurrences import EveryOccurrences
from reconciler.schedule.timeline import Timeline, timeline
from reconciler.schedule.zones import Segment, segment_at

MINUTE = timedelta(minutes=1)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Santiago")


def is_covered(window: Mapping[str, Any], at: datetime, zone: ZoneInfo) -> bool:
    """Whether a window holds an instant, by its definition."""
    local = at.astimezone(zone)
    day = local.date()
    match window:
        case {"weekdays": names}:
            return ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[day.weekday()] in names
        case {"daysOfMonth": days}:
            return day.day in days or ("L" in days and (day + timedelta(days=1)).day == 1)
        case {"dates": dates}:
            return day.isoformat() in dates
        case {"yearly": {"from": first, "to": last}}:
            now = (day.month, day.day)
            begin, end = (tuple(map(int, each.split("-"))) for each in (first, last))
            return begin <= now <= end if begin <= end else now >= begin or now <= end
        case {"daily": {"from": first, "to": last}}:
            clock, begins, ends = f"{local:%H:%M}", str(first), str(last)
            return begins <= clock < ends if begins < ends else clock >= begins or clock < ends
        case {"from": first, "to": last} if "T" in first:
            return datetime.fromisoformat(first) <= at < datetime.fromisoformat(last)
        case {"from": first, "to": last}:
            return date.fromisoformat(first) <= day <= date.fromisoformat(last)
        case _:
            raise AssertionError(window)


def is_open(document: Mapping[str, Any], at: datetime) -> bool:
    zone = ZoneInfo(document["timeZone"])
    covered = any(is_covered(each, at, zone) for each in document["windows"])
    return covered == (str(document["mode"]) == "Allow")


def pairs(texts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(texts, min_size=2, max_size=2, unique=True).map(
        lambda both: dict(zip(("from", "to"), both, strict=True))
    )


def in_order(pair: dict[str, str]) -> dict[str, str]:
    first, last = sorted(pair.values())
    return {"from": first, "to": last}


START = datetime(2026, 3, 20, tzinfo=UTC)
DAYS = st.integers(0, 25).map(lambda each: (START + timedelta(days=each)).date())
INSTANTS = st.integers(0, 25 * 24 * 12).map(lambda each: (START + timedelta(minutes=5 * each)).isoformat())
WINDOWS = st.one_of(
    st.sets(st.sampled_from(WEEKDAYS), min_size=1).map(lambda each: {"weekdays": sorted(each)}),
    st.lists(st.sampled_from([1, 2, 22, 29, 31, "L"]), min_size=1, unique=True).map(lambda each: {"daysOfMonth": each}),
    st.sets(DAYS, min_size=1, max_size=4).map(lambda each: {"dates": sorted(day.isoformat() for day in each)}),
    pairs(DAYS.map(lambda day: day.isoformat())).map(in_order),
    pairs(INSTANTS).map(in_order),
    pairs(DAYS.map(lambda day: f"{day:%m-%d}")).map(lambda pair: {"yearly": pair}),
    pairs(st.sampled_from(["00:00", "01:30", "02:00", "02:30", "06:00", "22:00", "23:59"])).map(
        lambda pair: {"daily": pair}
    ),
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["Blackout", "Allow"]),
        "timeZone": st.sampled_from(ZONES),
        "windows": st.lists(WINDOWS, min_size=1, max_size=4),
    }
)


@settings(max_examples=150, deadline=None)
@given(document=DOCUMENTS, minute=st.integers(0, 20 * 24 * 60))
def test_a_calendar_is_closed_exactly_while_its_windows_say_so(document: dict[str, Any], minute: int) -> None:
    """The spring changes of most of the zones lie in these weeks."""
    calendar = calendar_from(document)
    at = START + minute * MINUTE

    found = calendar.closed_until(to_us(at))

    if is_open(document, at):
        assert found is None
        return
    assert found is not None
    opens = at
    while not is_open(document, opens) and opens < at + timedelta(days=3):
        opens += MINUTE
    if is_open(document, opens):
        assert from_us(found) == opens
    else:
        assert found > to_us(opens - MINUTE)


@pytest.mark.parametrize(
    "closure",
    [{"from": "1970-01-01", "to": "2026-12-31"}, {"from": "1970-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"}],
    ids=["days", "instants"],
)
def test_a_closure_of_decades_ends_also_beside_windows_of_every_day(closure: dict[str, str]) -> None:
    daily = [{"daily": {"from": "22:00", "to": "06:00"}}, {"daily": {"from": "12:00", "to": "13:00"}}]
    calendar = calendar_from({"windows": [closure, *daily]})

    assert calendar.closed_until(0) == to_us(datetime(2027, 1, 1, 6, tzinfo=UTC))


@settings(max_examples=100, deadline=None)
@given(document=DOCUMENTS, minute=st.integers(0, 20 * 24 * 60))
def test_what_is_open_closes_when_its_windows_say_so(document: dict[str, Any], minute: int) -> None:
    calendar = calendar_from(document)
    at = START + minute * MINUTE

    found = calendar.open_until(to_us(at))

    assert (found is None) is not is_open(document, at)
    if found is not None and found < to_us(at + timedelta(days=3)):
        assert not is_open(document, from_us(found))
        assert is_open(document, from_us(found - 60 * SECOND_US))


@pytest.mark.parametrize(
    ("windows", "until"),
    [
        ([{"weekdays": ["Sat", "Sun"]}], "2026-03-30T00:00:00+02:00"),
        ([{"daily": {"from": "22:00", "to": "02:30"}}, {"weekdays": ["Sat"]}], "2026-03-29T03:00:00+02:00"),
        ([{"from": "2026-03-01", "to": "2026-03-28"}], "2026-03-29T00:00:00+01:00"),
        ([{"weekdays": list(WEEKDAYS)}], None),
    ],
)
def test_a_closure_ends_where_the_clocks_and_the_windows_say(windows: list[Any], until: str | None) -> None:
    """The night of 29 March 2026 has no 02:30 in Berlin: the calendar opens as the clocks pass it."""
    calendar = calendar_from({"timeZone": "Europe/Berlin", "windows": windows})

    found = calendar.closed_until(to_us(datetime(2026, 3, 28, 22, 30, tzinfo=UTC)))

    assert found == (NEVER if until is None else to_us(datetime.fromisoformat(until)))


def test_instants_that_touch_are_one_closure() -> None:
    windows = [
        {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
        {"from": "2026-01-02T00:00:00Z", "to": "2026-01-03T00:00:00Z"},
        {"from": "2026-01-01T12:00:00Z", "to": "2026-01-01T13:00:00Z"},
    ]

    found = calendar_from({"windows": windows}).closed_until(to_us(datetime(2026, 1, 1, 12, 30, tzinfo=UTC)))

    assert found == to_us(datetime(2026, 1, 3, tzinfo=UTC))


@settings(max_examples=60, deadline=None)
@given(document=DOCUMENTS, action=st.sampled_from(CalendarAction), hours=st.integers(1, 30))
def test_a_timeline_loses_no_slot_to_a_calendar(document: dict[str, Any], action: CalendarAction, hours: int) -> None:
    """Each slot runs, is skipped while closed, or is deferred to an instant at which a later slot's run is due."""
    calendars = {"freeze": calendar_from(document)}
    frame = Frame(calendars=(CalendarUse("freeze", action),))
    line = timeline(EveryTiming(hours * 3600 * SECOND_US, None), frame, activated_us=to_us(START), calendars=calendars)
    until = to_us(START + timedelta(days=20))

    planned = line.between(to_us(START), until, limit=1000)

    assert [each.slot_us for each in planned] == [
        to_us(START) + number * hours * 3600 * SECOND_US for number in range(1, 20 * 24 // hours + 1)
    ]
    due_later = {each.due_us for each in planned if each.reason is None}
    for each in planned:
        at = from_us(each.slot_us)
        if is_open(document, at):
            assert (each.reason, each.due_us) == (None, each.slot_us)
        elif action is CalendarAction.SKIP:
            assert each.reason is SkipReason.BLACKOUT_SKIPPED
        elif each.reason is None:
            assert is_open(document, from_us(each.due_us))
            assert each.due_us == calendars["freeze"].closed_until(each.slot_us)
        elif each.reason is SkipReason.DEFERRED:
            release_us = calendars["freeze"].closed_until(each.slot_us)
            assert release_us is not None
            assert release_us in due_later or release_us > until
    runs = [each.due_us for each in planned if each.reason is None]
    assert len(runs) == len(set(runs))


@pytest.mark.parametrize("action", CalendarAction)
def test_a_calendar_that_never_opens_is_searched_once(action: CalendarAction, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search goes through a hundred years of days: once for all slots, not for each."""
    past = calendar_from({"mode": "Allow", "windows": [{"dates": ["2020-01-01"]}]})
    looked: list[int] = []

    def counted(zone: ZoneInfo, at_us: int) -> Segment:
        looked.append(at_us)
        return segment_at(zone, at_us)

    monkeypatch.setattr("reconciler.schedule.calendar.segment_at", counted)
    line = timeline(
        EveryTiming(3600 * SECOND_US, "2020-01-01T00:00:00Z"),
        Frame(calendars=(CalendarUse("past", action),)),
        activated_us=0,
        calendars={"past": past},
    )

    planned = line.between(to_us(START), to_us(START + timedelta(days=20)), limit=1000)

    assert {each.reason for each in planned} == {SkipReason.BLACKOUT_SKIPPED}
    assert len(planned) == 480
    assert len(looked) < 100 * 366 * 3


@dataclass(frozen=True, slots=True)
class Counted(EveryOccurrences):
    """An interval that keeps what it is asked."""

    asked: list[int]

    def next_after(self, after_us: int) -> int | None:
        self.asked.append(after_us)
        return EveryOccurrences.next_after(self, after_us)


def test_slots_that_wait_behind_skipped_ones_are_joined_at_once() -> None:
    """Deferred to a month's end, of which all but the first second and the last is skipped by another calendar."""
    instants = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-31T23:59:59Z", "2026-02-01T00:00:00Z")
    calendars = {
        "defer": calendar_from({"windows": [{"from": instants[0], "to": instants[3]}]}),
        "skip": calendar_from({"windows": [{"from": instants[1], "to": instants[2]}]}),
    }
    uses = (CalendarUse("defer", CalendarAction.DEFER), CalendarUse("skip", CalendarAction.SKIP))
    seconds = Counted(0, SECOND_US, [])
    first_us = to_us(datetime(2026, 1, 1, tzinfo=UTC))

    planned = Timeline(seconds, Frame(calendars=uses), calendars=calendars).plan(first_us)

    assert planned.reason is SkipReason.DEFERRED
    assert planned.detail is not None
    assert planned.detail.endswith("one run with slot 2026-01-31T23:59:59Z")
    assert len(seconds.asked) < 10


def test_a_slot_at_the_very_opening_takes_the_deferred_ones_with_it() -> None:
    frame = Frame(calendars=(CalendarUse("night", CalendarAction.DEFER),))
    night = calendar_from({"windows": [{"daily": {"from": "22:00", "to": "06:00"}}]})
    every = EveryTiming(2 * 3600 * SECOND_US, "2026-01-01T00:00:00Z")

    planned = timeline(every, frame, activated_us=0, calendars={"night": night}).between(
        to_us(datetime(2026, 1, 1, 21, tzinfo=UTC)), to_us(datetime(2026, 1, 2, 6, tzinfo=UTC)), limit=10
    )

    assert [each.reason for each in planned] == [SkipReason.DEFERRED] * 4 + [None]
    assert planned[-1].due_us == planned[-1].slot_us == to_us(datetime(2026, 1, 2, 6, tzinfo=UTC))


@pytest.mark.parametrize("action", CalendarAction)
def test_the_next_run_is_found_behind_any_number_of_closed_slots(action: CalendarAction) -> None:
    """A slot each second, closed for half a year."""
    closed = calendar_from({"windows": [{"from": "2026-01-01T00:00:00Z", "to": "2026-07-01T00:00:00Z"}]})
    timing = CronTiming("* * * * * *", "UTC", gap=Gap.RUN_AFTER, overlap=Overlap.FIRST, day_rule=DayRule.OR)
    line = timeline(timing, Frame(calendars=(CalendarUse("c", action),)), activated_us=0, calendars={"c": closed})

    found = line.next_run_after(to_us(datetime(2026, 1, 1, 1, tzinfo=UTC)))

    assert found is not None
    assert found.due_us == to_us(datetime(2026, 7, 1, tzinfo=UTC))
