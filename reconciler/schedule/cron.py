"""A cron expression, compiled to bit masks over naive local seconds.

`parse` refuses whatever it would have to guess at. A compiled `Cron` answers one question: which matching local second
is the first at or after this one, or the last at or before it? It knows no zone: `cronslots` lays offsets on top. A
local second is an integer counted from 1970-01-01T00:00:00 on the wall; day 0 is that date.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from reconciler.model.policy import DayRule
from reconciler.schedule.crondates import LAST_YEAR, Dates, Values, highest, lowest
from reconciler.schedule.cronfields import DAY, FIELDS, MONTH, WEEKDAY, CronError, field_values
from reconciler.words import count

__all__ = ["LAST_YEAR", "Cron", "CronError", "expanded", "parse"]

DAY_SECONDS: Final = 86_400
MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_MAX_LENGTH: Final = 1024
_ZONE_PREFIXES: Final = ("CRON_TZ=", "TZ=")
_WORD: Final = re.compile(r"[^ \t]+")
_STARS: Final = ("*", "?")
_EVERY_WEEKDAY: Final = Values((1 << WEEKDAY.size) - 1)
_SHAPE: Final = "Write five fields (minute hour day month weekday), or six with the second first"


@dataclass(frozen=True, slots=True)
class Cron:
    """A compiled expression: `times` has a bit for each matching minute of a day, `seconds` for each of a minute."""

    expression: str
    seconds: int
    times: int
    dates: Dates
    follows_elapsed_time: bool
    """The hour begins with a star: through a clock change the schedule follows real time."""

    def at_or_after(self, second: int) -> int | None:
        """Give the first matching local second that is not before `second`; None when the calendar ends first."""
        day, rest = divmod(second, DAY_SECONDS)
        found = self.dates.at_or_after(day)
        if found == day:
            minute = rest // 60
            later = self.times >> minute
            if later & 1 and (within := self.seconds >> rest % 60):
                return second + (within & -within).bit_length() - 1
            if later := later >> 1:
                return second - rest + (minute + (later & -later).bit_length()) * 60 + lowest(self.seconds)
            found = self.dates.at_or_after(day + 1)
        if found is None:
            return None
        return found * DAY_SECONDS + lowest(self.times) * 60 + lowest(self.seconds)

    def at_or_before(self, second: int) -> int | None:
        """Give the last matching local second that is not after `second`; None when the calendar begins later."""
        day, rest = divmod(second, DAY_SECONDS)
        found = self.dates.at_or_before(day)
        if found == day:
            minute, of_minute = divmod(rest, 60)
            if self.times >> minute & 1 and (within := self.seconds & (2 << of_minute) - 1):
                return second - of_minute + highest(within)
            if earlier := self.times & (1 << minute) - 1:
                return day * DAY_SECONDS + highest(earlier) * 60 + highest(self.seconds)
            found = self.dates.at_or_before(day - 1)
        if found is None:
            return None
        return found * DAY_SECONDS + highest(self.times) * 60 + highest(self.seconds)

    def matches(self, second: int) -> bool:
        """Tell whether this local second matches."""
        return self.at_or_after(second) == second


def parse(expression: str, *, day_rule: DayRule = DayRule.OR, seed: str = "") -> Cron:
    """Compile an expression of five fields, of six with the second first, or a macro.

    `seed` decides what `H` means, as the definition's name does. Raises CronError with the field, the fault and its
    place in the text.
    """
    return _parse(expression, day_rule, seed if "H" in expression or "h" in expression else "")


def expanded(expression: str) -> str:
    """Give the fields that a macro stands for; any other text as it is."""
    return MACROS.get(expression.strip(" \t").lower(), expression) if "@" in expression else expression


@lru_cache(maxsize=8192)
def _parse(expression: str, day_rule: DayRule, seed: str) -> Cron:
    texts = _texts(expression)
    try:
        second, minute, hour, day, month, weekday = map(field_values, FIELDS, texts, (seed,) * len(FIELDS))
    except CronError as error:
        raise error.moved_by(_place(expression, error.field)[0]) from None
    starred = texts[3].startswith(_STARS) or texts[5].startswith(_STARS)
    dates = _dates(day, month.mask, weekday, starred or day_rule is DayRule.AND)
    if dates is None:
        raise _never_fires(expression, Dates(day, month.mask, _EVERY_WEEKDAY, needs_both=True), texts)
    return Cron(expression, second.mask, _times(minute.mask, hour.mask), dates, texts[2].startswith("*"))


@lru_cache(maxsize=8192)
def _dates(days: Values, months: int, weekdays: Values, needs_both: bool) -> Dates | None:  # noqa: FBT001 - a key
    """Share the dates of equal fields, and with them what each month came out as; None if no date ever comes."""
    dates = Dates(days, months, weekdays, needs_both)
    return dates if dates.ever_come() else None


@lru_cache(maxsize=8192)
def _times(minutes: int, hours: int) -> int:
    """Lay the minutes of an hour, 60 bits, into each matching hour."""
    return sum(minutes << hour * 60 for hour in range(24) if hours >> hour & 1)


def _texts(expression: str) -> list[str]:
    """Split into the texts of six fields, or say what else it is."""
    if len(expression) > _MAX_LENGTH:
        what = f"the expression has {len(expression)} characters, more than {_MAX_LENGTH}"
        raise CronError("cron.fields", what, "Use ranges and steps instead of long lists")
    texts = _WORD.findall(expanded(expression))
    if texts and "=" in texts[0] and texts[0].upper().startswith(_ZONE_PREFIXES):
        what = f'"{texts[0]}" does not belong into the expression'
        mend = f"Write timeZone: {texts[0].partition('=')[2] or 'UTC'} beside cron"
        raise CronError("cron.fields", what, mend, offset=expression.index(texts[0]), length=len(texts[0]))
    if texts and texts[0].startswith("@"):
        raise _no_macro(expression, texts)
    if len(texts) == len(FIELDS) - 1:
        return ["0", *texts]
    if len(texts) != len(FIELDS):
        what = f"the expression has {count(len(texts), 'field')}, not five or six"
        raise CronError("cron.fields", what, _SHAPE, length=len(expression))
    return texts


def _place(expression: str, name: str) -> tuple[int, int]:
    """Tell where the field of that name begins and ends."""
    spans = [found.span() for found in _WORD.finditer(expression)]
    return spans[[field.name for field in FIELDS[-len(spans) :]].index(name)]


def _no_macro(expression: str, texts: list[str]) -> CronError:
    first = texts[0]
    name = first.lower()
    what = f'"{first}" is no cron expression'
    mend = f'Write {", ".join(MACROS)}, or fields such as "0 0 * * *" for every day at midnight'
    if name == "@reboot":
        what, mend = f'"{first}" names no time: a scheduler of many nodes has no one start', "Write when to run"
    elif name == "@every":
        mend = f"Write every: {texts[1] if len(texts) > 1 else '5m'} in place of cron"
    elif name in MACROS:
        what, mend = f'"{first}" stands for all fields, and more follow', f"Write {name} alone"
    elif near := difflib.get_close_matches(name[:20], MACROS, n=1):
        mend = f"Did you mean {near[0]}?"
    return CronError("cron.fields", what, mend, offset=expression.index(first), length=len(first))


def _never_fires(expression: str, on_any_weekday: Dates, texts: list[str]) -> CronError:
    """Say which dates do not exist: days that no such month has, or days that never fall on such a weekday."""
    day, month, weekday = texts[3:]
    last = WEEKDAY
    what = f'no day "{day}" in a month of "{month}" is ever a "{weekday}"'
    if not on_any_weekday.ever_come():
        last = MONTH
        what = f'no month of "{month}" has a day "{day}"'
    start, end = _place(expression, DAY.name)[0], _place(expression, last.name)[1]
    what = f'"{expression}" never fires: {what}'
    mend = "Write a date that exists"
    return CronError("cron.never-fires", what, mend, field=DAY.name, offset=start, length=end - start)
