"""Random cron fields together with the values they mean, and random instants near clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from reconciler.clock import from_us, to_us
from reconciler.schedule.zones import load_zone, segment_at
from tests.schedule.oracle import Expression, Spelled

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

ZONES = (
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Asia/Gaza",
    "Africa/Casablanca",
    "America/Caracas",
    "Asia/Kathmandu",
    "Antarctica/Troll",
    "Asia/Pyongyang",
)


def stars(low: int, high: int) -> st.SearchStrategy[Spelled]:
    plain = st.just(Spelled("*", frozenset(range(low, high + 1))))
    stepped = st.integers(1, high - low).map(lambda step: Spelled(f"*/{step}", frozenset(range(low, high + 1, step))))
    return st.one_of(plain, plain, stepped)


@st.composite
def items(draw: st.DrawFn, low: int, high: int) -> Spelled:
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    if first == last:
        return Spelled(str(first), frozenset({first}))
    step = draw(st.integers(1, last - first))
    text = f"{first}-{last}" + (f"/{step}" if step > 1 else "")
    return Spelled(text, frozenset(range(first, last + 1, step)))


def lists(low: int, high: int) -> st.SearchStrategy[Spelled]:
    return st.lists(items(low, high), min_size=1, max_size=3).map(
        lambda parts: Spelled(
            ",".join(part.text for part in parts), frozenset().union(*(part.values for part in parts))
        )
    )


@st.composite
def named(draw: st.DrawFn, names: tuple[str, ...], first_value: int) -> Spelled:
    """A range of names, wrapping around where it runs backwards, in any case."""
    size = len(names)
    low, high = draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))
    text = draw(st.sampled_from([str.upper, str.lower, str.title]))(f"{names[low]}-{names[high]}")
    steps = (high - low) % size
    return Spelled(text, frozenset((low + at) % size + first_value for at in range(steps + 1)))


def minutes() -> st.SearchStrategy[Spelled]:
    return st.one_of(stars(0, 59), lists(0, 59))


def hours() -> st.SearchStrategy[Spelled]:
    return st.one_of(stars(0, 23), lists(0, 23))


def days() -> st.SearchStrategy[Spelled]:
    return st.one_of(stars(1, 31), lists(1, 31))


def months() -> st.SearchStrategy[Spelled]:
    return st.one_of(stars(1, 12), lists(1, 12), named(MONTHS, 1))


def weekdays() -> st.SearchStrategy[Spelled]:
    sunday_is_seven = lists(0, 7).map(lambda it: Spelled(it.text, frozenset(value % 7 for value in it.values)))
    return st.one_of(stars(0, 6), sunday_is_seven, named(WEEKDAYS, 0))


def expressions() -> st.SearchStrategy[Expression]:
    """Any expression; those that name no date are rare."""
    return st.builds(Expression, minutes(), hours(), days(), months(), weekdays())


def busy_expressions() -> st.SearchStrategy[Expression]:
    """Expressions that fire on most days, so that a short stretch shows something."""
    every_day, every_month = Spelled("*", frozenset(range(1, 32))), Spelled("*", frozenset(range(1, 13)))
    any_day = st.one_of(st.just(every_day), stars(1, 31))
    return st.builds(Expression, minutes(), hours(), any_day, st.just(every_month), weekdays())


def zones() -> st.SearchStrategy[ZoneInfo]:
    return st.sampled_from(ZONES).map(load_zone)


@st.composite
def instants(draw: st.DrawFn, zone: ZoneInfo) -> datetime:
    """An instant between 1980 and 2040: half of them within three hours of a clock change."""
    anywhere = datetime(1980, 1, 1, tzinfo=UTC) + timedelta(seconds=draw(st.integers(0, 60 * 365 * 86_400)))
    if draw(st.booleans()):
        return anywhere
    segment = segment_at(zone, to_us(anywhere))
    for _ in range(3):  # a seam between two pieces of one segment is no change
        segment = segment_at(zone, segment.end_us)
        if segment.shift_us:
            break
    return from_us(segment.start_us) + timedelta(seconds=draw(st.integers(-3 * 3600, 3 * 3600)))
