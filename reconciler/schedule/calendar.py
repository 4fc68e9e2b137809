"""Calendars: when work may not run, as windows over the local time of a zone.

A calendar is built from its *resolved* document, in which every date that had to be looked up (holidays, iCalendar
files) is written out; so it answers the same on every node. Dates include their last day, instants and times of day
end before theirs. Arithmetic is that of `zones`: a step from boundary to boundary, none of them hidden in between.
"""

from __future__ import annotations

import calendar as gregorian
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from reconciler.clock import SECOND_US
from reconciler.schedule.occurrences import parse_instant
from reconciler.schedule.zones import DAY_US, LAST_US, load_zone, segment_at

NEVER: Final = LAST_US
"""Stands for the end of a closure that has none."""
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LAST_DAY: Final = "L"

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_MOST_BOUNDARIES: Final = 40_000
"""More than a hundred years have days; what is closed for longer counts as closed for ever."""


class CalendarMode(StrEnum):
    """Whether its windows close a calendar, or are the only times at which it is open."""

    BLACKOUT = "Blackout"
    ALLOW = "Allow"


@dataclass(frozen=True, slots=True)
class Span:
    """Instants [start, end)."""

    start_us: int
    end_us: int

    def covers(self, at_us: int) -> bool:
        return self.start_us <= at_us < self.end_us


OnDay = Callable[[date], bool]


class Calendar:
    """Answers whether work may run at an instant, and if not, when it may again."""

    def __init__(
        self, mode: CalendarMode, zone: ZoneInfo, *, days: Sequence[OnDay], times: Sequence[Span], spans: Sequence[Span]
    ) -> None:
        """Keep the windows: whole days, times of day (as microseconds after midnight), and spans of instants."""
        self._is_blackout = mode is CalendarMode.BLACKOUT
        self._zone = zone
        self._days = days
        self._times = times
        self._edges_of_spans = _merged(spans)
        self._edges = sorted({0, *(edge for each in times for edge in (each.start_us, each.end_us) if edge < DAY_US)})
        self._steady = Span(0, 0)

    def is_closed(self, at_us: int) -> bool:
        """Say whether it is closed at an instant."""
        return not self._is_open(at_us)

    def closed_until(self, at_us: int) -> int | None:
        """Give the first instant from `at_us` on at which it is open again; None when it is open then.

        NEVER when it does not open within a hundred years.
        """
        return self._changes(at_us) if not self._is_open(at_us) else None

    def open_until(self, at_us: int) -> int | None:
        """Give the first instant from `at_us` on at which it is closed; None when it is closed then.

        NEVER when it does not close within a hundred years.
        """
        return self._changes(at_us) if self._is_open(at_us) else None

    def _changes(self, at_us: int) -> int:
        """Give the next instant at which it is open if it is closed at `at_us`, or closed if it is open."""
        # Neighbouring slots ask of the same closure, which may be a hundred years of boundaries long.
        steady = self._steady
        if not steady.covers(at_us):
            steady = self._steady = Span(at_us, self._search_change(at_us))
        return steady.end_us

    def _search_change(self, at_us: int) -> int:
        is_open = self._is_open(at_us)
        for _ in range(_MOST_BOUNDARIES):
            at_us = self._next_boundary(at_us)
            if at_us >= NEVER:
                break
            if self._is_open(at_us) is not is_open:
                return at_us
        return NEVER

    def _is_open(self, at_us: int) -> bool:
        return self._is_covered(at_us) is not self._is_blackout

    def _is_covered(self, at_us: int) -> bool:
        day, of_day = divmod(at_us + segment_at(self._zone, at_us).offset_us, DAY_US)
        return (
            bisect_right(self._edges_of_spans, at_us) % 2 == 1
            or any(each.covers(of_day) for each in self._times)
            or (bool(self._days) and self._on_day(day))
        )

    def _on_day(self, day: int) -> bool:
        local = date.fromordinal(day + _EPOCH_ORDINAL)
        return any(matches(local) for matches in self._days)

    def _next_boundary(self, at_us: int) -> int:
        """Give the next instant at which a window may begin or end: an edge of a day, of a span, or a clock change.

        What lies inside a span or a day that is covered as a whole changes nothing, and is passed over.
        """
        later = bisect_right(self._edges_of_spans, at_us)
        if later % 2 == 1:
            return self._edges_of_spans[later]
        segment = segment_at(self._zone, at_us)
        day, of_day = divmod(at_us + segment.offset_us, DAY_US)
        is_whole = bool(self._days) and self._on_day(day)
        edge = DAY_US if is_whole else next((each for each in self._edges if each > of_day), DAY_US)
        candidates = [segment.end_us, day * DAY_US + edge - segment.offset_us]
        return min(candidates + self._edges_of_spans[later : later + 1])


def _merged(spans: Sequence[Span]) -> list[int]:
    """Give the edges of spans in order, begin and end in turn, with spans that touch made one."""
    edges: list[int] = []
    for each in sorted(spans, key=lambda span: span.start_us):
        if edges and each.start_us <= edges[-1]:
            edges[-1] = max(edges[-1], each.end_us)
        else:
            edges += [each.start_us, each.end_us]
    return edges


def calendar_from(document: Mapping[str, Any]) -> Calendar:
    """Build a calendar from a resolved document: mode, timeZone, windows. Raises TimingError, ValueError."""
    days: list[OnDay] = []
    times: list[Span] = []
    spans: list[Span] = []
    for window in document.get("windows", ()):
        match window:
            case {"weekdays": names}:
                days.append(_weekdays(names))
            case {"daysOfMonth": listed}:
                days.append(_days_of_month(listed))
            case {"yearly": {"from": first, "to": last}}:
                days.append(_yearly(first, last))
            case {"dates": listed}:
                days.append(_dates(listed))
            case {"daily": {"from": first, "to": last}}:
                times += _daily(time_of_day(first), time_of_day(last))
            case {"from": first, "to": last} if "T" in first:
                spans.append(Span(parse_instant(first), parse_instant(last)))
            case {"from": first, "to": last}:
                days.append(_between(date.fromisoformat(first), date.fromisoformat(last)))
            case _:
                raise ValueError(f"{window} is no window of a resolved calendar")
    mode = CalendarMode(document.get("mode", CalendarMode.BLACKOUT))
    return Calendar(mode, load_zone(document.get("timeZone", "UTC")), days=days, times=times, spans=spans)


def time_of_day(text: str) -> int:
    """Read `22:00` as microseconds after midnight; `24:00` is the end of the day. Raises ValueError."""
    hours, _, minutes = text.partition(":")
    us = (int(hours) * 60 + int(minutes)) * 60 * SECOND_US
    if not 0 <= us <= DAY_US:
        raise ValueError(text)
    return us


def _weekdays(names: Sequence[str]) -> OnDay:
    numbers = frozenset(WEEKDAYS.index(name) for name in names)
    return lambda day: day.weekday() in numbers


def _days_of_month(listed: Sequence[int | str]) -> OnDay:
    wanted, takes_last = frozenset(listed), LAST_DAY in listed
    return lambda day: day.day in wanted or (takes_last and day.day == gregorian.monthrange(day.year, day.month)[1])


def _yearly(first: str, last: str) -> OnDay:
    if first <= last:
        return lambda day: first <= f"{day:%m-%d}" <= last
    return lambda day: f"{day:%m-%d}" >= first or f"{day:%m-%d}" <= last


def _dates(listed: Sequence[str]) -> OnDay:
    dates = frozenset(map(date.fromisoformat, listed))
    return lambda day: day in dates


def _between(first: date, last: date) -> OnDay:
    return lambda day: first <= day <= last


def _daily(first_us: int, last_us: int) -> list[Span]:
    """Turn times of day to spans; one that ends before it begins goes over midnight."""
    if first_us < last_us:
        return [Span(first_us, last_us)]
    return [Span(first_us, DAY_US), Span(0, last_us)]
