"""A cron expression, compiled to bit masks over naive local minutes.

`parse` refuses whatever it would have to guess at. A compiled `Cron` answers one question: which is the first matching
local minute at or after this one? It knows no zone: `occurrences` lays offsets on top. A local minute is an integer
counted from 1970-01-01T00:00 on the wall; day 0 is that date.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final

from reconciler.schedule.cronfields import DAY, FIELDS, HOUR, MINUTE, MONTH, WEEKDAY, CronError, Word, field_mask
from reconciler.words import count

__all__ = ["Cron", "CronError", "parse"]

MINUTES_A_DAY: Final = 24 * 60
LAST_YEAR: Final = 9998
"""Nothing fires after this year: the calendar of the standard library ends with 9999."""

_MAX_LENGTH: Final = 1024
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_EVERY_SEVENTH: Final = sum(1 << week * 7 for week in range(5))
_LONGEST: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MACROS: Final = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "@reboot")
_ZONE_PREFIXES: Final = ("CRON_TZ=", "TZ=")


@dataclass(frozen=True, slots=True)
class Cron:
    """A compiled expression: bit n of a mask is set when value n matches (Sunday is bit 0)."""

    expression: str
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    needs_both_days: bool
    """Vixie's day rule: day-of-month or day-of-week begins with a star, so both must match; otherwise either."""
    follows_elapsed_time: bool
    """The hour begins with a star: through a clock change the schedule follows real time."""

    def at_or_after(self, minute: int) -> int | None:
        """Give the first matching local minute that is not before `minute`; None when the calendar ends first."""
        day, minute_of_day = divmod(minute, MINUTES_A_DAY)
        found = self._within_day(minute_of_day)
        first_day = self._day_at_or_after(day if found is not None else day + 1)
        if first_day is None:
            return None
        if first_day != day or found is None:
            found = _lowest(self.hours) * 60 + _lowest(self.minutes)
        return first_day * MINUTES_A_DAY + found

    def matches(self, minute: int) -> bool:
        """Tell whether this local minute matches."""
        return self.at_or_after(minute) == minute

    def _within_day(self, minute_of_day: int) -> int | None:
        hour, minute = divmod(minute_of_day, 60)
        if self.hours >> hour & 1 and (rest := self.minutes >> minute):
            return minute_of_day + _lowest(rest)
        if later := self.hours >> hour + 1:
            return (hour + 1 + _lowest(later)) * 60 + _lowest(self.minutes)
        return None

    def _day_at_or_after(self, day: int) -> int | None:
        start = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month, first = start.year, start.month, start.day
        while year <= LAST_YEAR:
            if self.months >> month & 1:
                first_ordinal = date(year, month, 1).toordinal()
                if rest := self._days_of(year, month, first_ordinal) >> first:
                    return first_ordinal - _EPOCH_ORDINAL + first - 1 + _lowest(rest)
            first = 1
            if later := self.months >> month + 1:
                month += 1 + _lowest(later)
            else:
                year, month = year + 1, _lowest(self.months)
        return None

    def _days_of(self, year: int, month: int, first_ordinal: int) -> int:
        """Give the matching days of a month as a mask, bit 1 for the first."""
        weekday = first_ordinal % 7  # ordinal 0 would be a Sunday
        turned = (self.weekdays >> weekday | self.weekdays << 7 - weekday) & 0x7F
        by_weekday = turned * _EVERY_SEVENTH << 1
        days = self.days & by_weekday if self.needs_both_days else self.days | by_weekday
        return days & (2 << _length_of(year, month)) - 2


@lru_cache(maxsize=8192)
def parse(expression: str) -> Cron:
    """Compile a five-field expression. Raises CronError with the field, the fault and its place in the text."""
    words = _words(expression)
    masks = [field_mask(field, word) for field, word in zip(FIELDS, words, strict=True)]
    cron = Cron(
        expression=expression,
        minutes=masks[FIELDS.index(MINUTE)],
        hours=masks[FIELDS.index(HOUR)],
        days=masks[FIELDS.index(DAY)],
        months=masks[FIELDS.index(MONTH)],
        weekdays=masks[FIELDS.index(WEEKDAY)],
        needs_both_days=words[2].text.startswith("*") or words[4].text.startswith("*"),
        follows_elapsed_time=words[1].text.startswith("*"),
    )
    _refuse_never_firing(cron, words)
    return cron


def _words(expression: str) -> list[Word]:
    """Split into five fields with their offsets, or say what else it is."""
    if len(expression) > _MAX_LENGTH:
        raise CronError(
            "cron.fields",
            f"the expression has {len(expression)} characters, more than {_MAX_LENGTH}",
            "Use ranges and steps instead of long lists",
        )
    words = _split(expression)
    if words and words[0].text.upper().startswith(_ZONE_PREFIXES):
        prefix = words[0]
        raise CronError(
            "cron.fields",
            f'"{prefix.text}" does not belong into the expression',
            f"Write timeZone: {prefix.text.partition('=')[2] or 'UTC'} beside cron",
            offset=prefix.offset,
            length=len(prefix.text),
        )
    if words and words[0].text.startswith("@"):
        _refuse_macro(words[0])
    if len(words) == len(FIELDS) + 1:
        raise CronError(
            "cron.not-yet",
            "six fields (seconds first) are not supported yet",
            "Write five fields: minute hour day month weekday",
            offset=words[0].offset,
            length=len(words[0].text),
        )
    if len(words) != len(FIELDS):
        raise CronError(
            "cron.fields",
            f"the expression has {count(len(words), 'field')}, not five",
            "Write five fields: minute hour day month weekday",
            length=len(expression),
        )
    return words


def _split(expression: str) -> list[Word]:
    words: list[Word] = []
    start: int | None = None
    for offset, character in enumerate(expression + " "):
        if character in " \t":
            if start is not None:
                words.append(Word(expression[start:offset], start))
            start = None
        elif start is None:
            start = offset
    return words


def _refuse_macro(word: Word) -> None:
    known = word.text.lower() in _MACROS
    raise CronError(
        "cron.not-yet" if known else "cron.fields",
        f'"{word.text}" is not supported yet' if known else f'"{word.text}" is no cron expression',
        'Write five fields, such as "0 0 * * *" for every day at midnight',
        offset=word.offset,
        length=len(word.text),
    )


def _refuse_never_firing(cron: Cron, words: list[Word]) -> None:
    """Refuse dates that do not exist.

    A weekday alone always comes. Over the 400-year cycle of the calendar every date, 29 February included, falls on
    every weekday; so an expression never fires exactly when no month has any of its days.
    """
    either = not cron.needs_both_days
    if either or any(
        cron.months >> month & 1 and cron.days & (2 << longest) - 2 for month, longest in enumerate(_LONGEST)
    ):
        return
    day, month = words[2], words[3]
    raise CronError(
        "cron.never-fires",
        f'"{cron.expression}" never fires: no month of "{month.text}" has a day "{day.text}"',
        "Write a date that exists",
        field=DAY.name,
        offset=day.offset,
        length=month.offset + len(month.text) - day.offset,
    )


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _length_of(year: int, month: int) -> int:
    if month == 2 and (year % 4 or (year % 100 == 0 and year % 400)):  # noqa: PLR2004 - February
        return 28
    return _LONGEST[month]
