"""The dates that the day fields of a cron expression name, as bit masks over the days of a month.

Which days of a month match depends on its length and on the weekday of its first day alone: 28 shapes, each worked out
once per `Dates`. Over the 400-year cycle of the calendar every month, 29 days of February included, begins on every
weekday, so an expression fires some day exactly when one shape of one of its months has a matching day.
Day 0 is 1970-01-01; weekday 0 is Sunday; in a mask of days bit 1 is the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Final, NamedTuple

LAST_YEAR: Final = 9998
"""Nothing fires after this year: the calendar of the standard library ends with 9999."""

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_EVERY_SEVENTH: Final = sum(2 << week * 7 for week in range(5))
_LONGEST: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY: Final = 2
_NEVER_ASKED: Final = (0, -1)


@dataclass(frozen=True, slots=True)
class FromLast:
    """`L`, or `L-3`: the third day before the last."""

    back: int

    def mask(self, length: int, first_weekday: int) -> int:  # noqa: ARG002 - as all of them
        return 1 << length - self.back if self.back < length else 0


@dataclass(frozen=True, slots=True)
class NearestWorkday:
    """`15W`: the day from Monday to Friday that is nearest to it within the month; `LW` (None): to the last day."""

    day: int | None

    def mask(self, length: int, first_weekday: int) -> int:
        day = self.day or length
        if day > length:
            return 0
        match (first_weekday + day - 1) % 7:
            case 0:
                return 1 << (day + 1 if day < length else day - 2)
            case 6:
                return 1 << (day - 1 if day > 1 else day + 2)
            case _:
                return 1 << day


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """`5#3`: the third Friday."""

    weekday: int
    nth: int

    def mask(self, length: int, first_weekday: int) -> int:
        day = 1 + (self.weekday - first_weekday) % 7 + 7 * (self.nth - 1)
        return 1 << day if day <= length else 0


@dataclass(frozen=True, slots=True)
class LastWeekday:
    """`5L`: the last Friday."""

    weekday: int

    def mask(self, length: int, first_weekday: int) -> int:
        return 1 << length - (first_weekday + length - 1 - self.weekday) % 7


PlacedDay = FromLast | NearestWorkday | NthWeekday | LastWeekday
"""A day that is named by its place in the month: as a mask, none where a month has no such day."""


class Values(NamedTuple):
    """What one field names: bit n of the mask for value n, and days that depend on the month."""

    mask: int
    placed: tuple[PlacedDay, ...] = ()


@dataclass(frozen=True, slots=True)
class Dates:
    """The dates of an expression."""

    days: Values
    months: int
    weekdays: Values
    needs_both: bool
    """Day-of-month and day-of-week must both match; otherwise either."""
    _shapes: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)
    _latest: list[tuple[int, int]] = field(
        default_factory=lambda: [_NEVER_ASKED], init=False, compare=False, repr=False
    )
    """The latest question and its answer, which answers for the days in between too."""

    def at_or_after(self, day: int) -> int | None:
        """Give the first matching day that is not before `day`; None when the calendar ends first."""
        asked, found = self._latest[0]
        if asked <= day <= found:
            return found
        start = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month, first = start.year, start.month, start.day
        while year <= LAST_YEAR:
            if self.months >> month & 1:
                begins, mask = self._month(year, month)
                if rest := mask >> first:
                    found = begins + first + lowest(rest)
                    self._latest[0] = (day, found)
                    return found
            first = 0
            if later := self.months >> month + 1:
                month += 1 + lowest(later)
            else:
                year, month = year + 1, lowest(self.months)
        return None

    def at_or_before(self, day: int) -> int | None:
        """Give the last matching day that is not after `day`; None when the calendar begins later."""
        start = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month, last = start.year, start.month, start.day
        while year > 0:
            if self.months >> month & 1:
                begins, mask = self._month(year, month)
                if rest := mask & (2 << last) - 1:
                    return begins + highest(rest)
            last = 31
            if earlier := self.months & (1 << month) - 1:
                month = highest(earlier)
            else:
                year, month = year - 1, highest(self.months)
        return None

    def ever_come(self) -> bool:
        """Tell whether any date of the 400-year cycle matches."""
        return any(
            self._days_of(length, first_weekday)
            for month in range(1, 13)
            if self.months >> month & 1
            for length in ((28, 29) if month == _FEBRUARY else (_LONGEST[month],))
            for first_weekday in range(7)
        )

    def _month(self, year: int, month: int) -> tuple[int, int]:
        """Give the day before the first of a month, and the mask of its matching days."""
        ordinal = date(year, month, 1).toordinal()
        length = _LONGEST[month]
        if month == _FEBRUARY and (year % 4 or (year % 100 == 0 and year % 400)):
            length = 28
        # ordinal 0 would be a Sunday
        return ordinal - _EPOCH_ORDINAL - 1, self._days_of(length, ordinal % 7)

    def _days_of(self, length: int, first_weekday: int) -> int:
        shape = length * 7 + first_weekday
        mask = self._shapes.get(shape)
        if mask is None:
            mask = self._shapes[shape] = self._work_out(length, first_weekday)
        return mask

    def _work_out(self, length: int, first_weekday: int) -> int:
        weekdays = self.weekdays.mask
        by_weekday = ((weekdays >> first_weekday | weekdays << 7 - first_weekday) & 0x7F) * _EVERY_SEVENTH
        by_day = self.days.mask
        for each in self.days.placed:
            by_day |= each.mask(length, first_weekday)
        for each in self.weekdays.placed:
            by_weekday |= each.mask(length, first_weekday)
        matching = by_day & by_weekday if self.needs_both else by_day | by_weekday
        return matching & (2 << length) - 2


def lowest(mask: int) -> int:
    """Give the place of the lowest bit of a mask that is not 0."""
    return (mask & -mask).bit_length() - 1


def highest(mask: int) -> int:
    """Give the place of the highest bit of a mask that is not 0."""
    return mask.bit_length() - 1
