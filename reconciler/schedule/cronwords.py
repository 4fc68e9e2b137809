"""A cron expression in words, for people who review a change.

Times of day are worded by cron-descriptor, given only what it words right: it takes `*/7` for "every 7 minutes" across
the hour, and reads `*/5 */2` and the day fields in a dialect of its own. So it sees what the fields came out as, never
their text, and dates are worded here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from cron_descriptor import ExpressionDescriptor, Options  # type: ignore[import-untyped]

from reconciler.schedule.cron import Cron
from reconciler.schedule.crondates import Dates, FromLast, LastWeekday, NearestWorkday, NthWeekday, PlacedDay

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH: Final = ("", "first", "second", "third", "fourth", "fifth")
_RUN: Final = 3
"""From so many on, neighbours are told as a range."""
_SERIES: Final = 5
"""From so many on, values in even steps are told as a series."""
_MOST_TIMES: Final = 4


def words(cron: Cron) -> str:
    """Say when a cron fires, such as "At 07:30, on Monday to Friday"."""
    return ", ".join(part for part in (_time(cron), _days(cron.dates), _months(cron.dates)) if part)


def _time(cron: Cron) -> str:
    hours = [hour for hour in range(24) if cron.times >> hour * 60 & 2**60 - 1]
    minutes = _bits(cron.times >> hours[0] * 60 & 2**60 - 1)
    seconds = _bits(cron.seconds)
    if len(hours) == len(minutes) == len(seconds) == 1:
        return _told(_field(seconds, 60), _field(minutes, 60), _field(hours, 24))
    if seconds == [0]:
        return _minutes(minutes, hours)
    told = _told(_field(seconds, 60), "*", "*")
    if len(minutes) == 60 and len(hours) == 24:  # noqa: PLR2004 - all of them
        return told
    minutes_told = _minutes(minutes, hours)
    return f"{told}, in these minutes: {minutes_told[0].lower()}{minutes_told[1:]}"


def _minutes(minutes: Sequence[int], hours: Sequence[int]) -> str:
    if 1 < len(minutes) * len(hours) <= _MOST_TIMES:
        return "At " + _and([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])
    minute, hour = _field(minutes, 60), _field(hours, 24)
    step = 0 if minute.startswith("*") else _series(minutes)
    if len(minutes) == 1 or (not step and "," not in hour.replace("/", ",")):
        return _told("0", minute, hour)
    told = _told("0", minute, "*")
    if step:
        told = f"At every {_ordinal(step)} minute from {minutes[0]} to {minutes[-1]} past the hour"
    return told if hour == "*" else f"{told}, in the hours {_and(_ranges(list(map(str, hours)), hours))}"


def _series(values: Sequence[int]) -> int:
    """Give the step of values that are many and evenly spread; 0 for others."""
    if len(values) < _SERIES:
        return 0
    step = values[1] - values[0]
    return step if step > 1 and list(values) == list(range(values[0], values[-1] + 1, step)) else 0


def _field(values: Sequence[int], size: int) -> str:
    """Write values the way that is worded best: all, even steps through all, a range, a list."""
    step = values[1] - values[0] if len(values) > 1 else size
    if len(values) == size:
        return "*"
    if list(values) == list(range(0, size, step)) and size % step == 0 and len(values) > 1:
        return f"*/{step}"
    if len(values) >= _RUN and step == 1 and values[-1] - values[0] == len(values) - 1:
        return f"{values[0]}-{values[-1]}"
    return ",".join(map(str, values))


@lru_cache(maxsize=1024)
def _told(second: str, minute: str, hour: str) -> str:
    options = Options()
    options.locale_code = "en_US"  # never that of the machine
    options.use_24hour_time_format = True
    fields = f"{minute} {hour} * * *" if second == "0" else f"{second} {minute} {hour} * * *"
    told: str = ExpressionDescriptor(fields, options).get_description()
    return told.replace("At 1 minutes past", "At 1 minute past")


def _days(dates: Dates) -> str:
    every_day = dates.days.mask == 2**32 - 2
    every_weekday = dates.weekdays.mask == 2**7 - 1
    day = _and([*_plain_days(dates), *map(_placed, dates.days.placed)])
    weekdays = [*_plain_weekdays(dates), *map(_placed, dates.weekdays.placed)]
    if dates.needs_both:
        if every_day:
            return "" if every_weekday else f"on {_and(weekdays)}"
        return f"on {day}" if every_weekday else f"on {day} where that is {_or(weekdays)}"
    return "" if every_day or every_weekday else f"on {day}, and also on {_and(weekdays)}"


def _months(dates: Dates) -> str:
    values = _turned(_bits(dates.months), 12)
    return "" if len(values) == len(_MONTHS) else f"in {_and(_ranges([_MONTHS[at - 1] for at in values], values, 12))}"


def _plain_days(dates: Dates) -> list[str]:
    values = _bits(dates.days.mask)
    if step := _series(values):
        return [f"every {_ordinal(step)} day from the {_ordinal(values[0])} to the {_ordinal(values[-1])}"]
    return [f"the {_and(_ranges(list(map(_ordinal, values)), values))}"] if values else []


def _plain_weekdays(dates: Dates) -> list[str]:
    """Name weekdays from Monday on."""
    values = [at % 7 for at in range(1, 8) if dates.weekdays.mask >> at % 7 & 1]
    values = _turned(values, 7) if values else []
    return _ranges([_WEEKDAYS[at] for at in values], values, 7)


def _placed(day: PlacedDay) -> str:
    match day:
        case FromLast(back):
            return f"the {_ordinal(back)} day before the last of the month" if back else "the last day of the month"
        case NearestWorkday(nearest):
            return f"the workday nearest to the {_ordinal(nearest)}" if nearest else "the last workday of the month"
        case NthWeekday(weekday, nth):
            return f"the {_NTH[nth]} {_WEEKDAYS[weekday]} of the month"
        case LastWeekday(weekday):
            return f"the last {_WEEKDAYS[weekday]} of the month"


def _turned(values: list[int], size: int) -> list[int]:
    """Let a range that goes over the end of the field begin where it begins."""
    turned = values
    while len(values) < size and (turned[0] - 1) % size == turned[-1] % size:
        turned = [turned[-1], *turned[:-1]]
    return turned if len(turned) >= _RUN and (turned[_RUN - 1] - turned[0]) % size == _RUN - 1 else values


def _ranges(names: Sequence[str], values: Sequence[int], size: int = 100) -> list[str]:
    """Name values, neighbours as ranges; after `size` of them they begin anew."""
    runs: list[list[int]] = []
    for at, value in enumerate(values):
        if runs and (value - values[runs[-1][-1]]) % size == 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    told: list[str] = []
    for run in runs:
        told += [f"{names[run[0]]} to {names[run[-1]]}"] if len(run) >= _RUN else [names[at] for at in run]
    return told


def _ordinal(number: int) -> str:
    ending = "th" if number in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _bits(mask: int) -> list[int]:
    return [at for at in range(mask.bit_length()) if mask >> at & 1]


def _and(parts: Iterable[str]) -> str:
    return _joined(list(parts), "and")


def _or(parts: Iterable[str]) -> str:
    return _joined(list(parts), "or")


def _joined(parts: list[str], last: str) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}" if parts else ""
