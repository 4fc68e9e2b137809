"""Fire times found the slow way: every minute of 400 days against the fields, and every date of a 400-year cycle.

Nothing here shares code with `reconciler`: the fields are read anew from their text (all of the grammar but `H` and
macros), dates are tested one by one, and instants are laid under local times from a table of each zone's offsets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from itertools import pairwise, product
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

DAY = 86_400
MINUTES_A_DAY = 1440
LONGEST_GAP = 3 * 3600
MARGIN = 3
"""Days by which more is enumerated than asked for, on either side: further than any offset reaches."""
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
EPOCH = date(1970, 1, 1)
OFFSETS_KNOWN = (date(1985, 1, 1), date(2075, 1, 1))


class Calendar:
    """Every date of 500 years as columns; a row's number is its days since 1970."""

    def __init__(self) -> None:
        dates = np.arange(np.datetime64("1970-01-01"), np.datetime64("2470-01-01"))
        months = dates.astype("datetime64[M]")
        self.month = (months.astype(np.int64) % 12 + 1).astype(np.int8)
        self.day = ((dates - months).astype(np.int64) + 1).astype(np.int8)
        self.length = ((months + 1).astype("datetime64[D]") - months).astype(np.int64).astype(np.int8)
        self.weekday = ((dates.astype(np.int64) + 4) % 7).astype(np.int8)

    def rows(self, first: int, last: int) -> Calendar:
        part = Calendar.__new__(Calendar)
        part.month, part.day = self.month[first:last], self.day[first:last]
        part.length, part.weekday = self.length[first:last], self.weekday[first:last]
        return part


CALENDAR = Calendar()
CYCLE_DAYS = 146_097


@dataclass(frozen=True)
class Reading:
    """The fields of an expression, as their author meant them."""

    seconds: list[int]
    minutes: list[int]
    hours: list[int]
    day: str
    month: str
    weekday: str
    hour_begins_with_star: bool
    both: bool

    def on(self, dates: Calendar) -> Mask:
        """Tell of each date whether it matches."""
        by_day = np.any([_is_day(item, dates) for item in self.day.split(",")], axis=0)
        by_weekday = np.any([_is_weekday(item, dates) for item in self.weekday.split(",")], axis=0)
        in_month = np.isin(
            dates.month, [value for item in self.month.split(",") for value in _run(item, 1, 12, MONTHS)]
        )
        matching: Mask = in_month & (by_day & by_weekday if self.both else by_day | by_weekday)
        return matching


def read(expression: str, *, both: bool = False) -> Reading:
    """Read five or six fields; `both` is the day rule And."""
    fields = expression.upper().split()
    second, minute, hour, day, month, weekday = fields if len(fields) == 6 else ["0", *fields]
    return Reading(
        _listed(second, 59),
        _listed(minute, 59),
        _listed(hour, 23),
        day.replace("?", "*"),
        month,
        weekday.replace("?", "*"),
        hour_begins_with_star=hour[0] == "*",
        both=both or day[0] in "*?" or weekday[0] in "*?",
    )


def _listed(field: str, last: int) -> list[int]:
    return sorted({value for item in field.split(",") for value in _run(item, 0, last, [])})


def _run(item: str, first: int, last: int, names: list[str]) -> list[int]:
    """List the values of `*`, `a`, `a-b` and any of these with a step, walking around the end of the field."""
    base, _, step = item.partition("/")
    low, _, high = (f"{first}-{last}" if base == "*" else base).partition("-")
    at, end = (_number(text, first, names) for text in (low, high or low))
    walked = [at]
    while at != end:
        at += 1
        if at > last and end < walked[0]:
            at = first
        walked.append(at)
    return walked[:: int(step or 1)]


def _number(text: str, first: int, names: list[str]) -> int:
    return names.index(text) + first if text in names else int(text)


def _is_day(item: str, dates: Calendar) -> Mask:
    day, left = dates.day, dates.length - dates.day
    workday = (dates.weekday >= 1) & (dates.weekday <= 5)
    found: Mask
    if item == "LW":
        found = workday & ((left == 0) | ((left <= 2) & (dates.weekday == 5)))
    elif item[0] == "L":
        found = left == int(item[2:] or 0)
    elif item[-1] == "W":
        target = int(item[:-1])
        saturday_before = (day == target - 1) & (dates.weekday == 5) & (left >= 1)
        sunday_after = (day == target + 1) & (dates.weekday == 1)
        first_is_saturday = (target == 1) & (day == 3) & (dates.weekday == 1)
        last_is_sunday = (day == target - 2) & (dates.weekday == 5) & (left == 2)
        found = ((day == target) & workday) | saturday_before | sunday_after | first_is_saturday | last_is_sunday
    else:
        found = np.isin(day, _run(item, 1, 31, []))
    return found


def _is_weekday(item: str, dates: Calendar) -> Mask:
    name, has_number, nth = item.partition("#")
    found: Mask
    if has_number:
        weekday = _number(name, 0, WEEKDAYS) % 7
        found = (dates.weekday == weekday) & ((dates.day - 1) // 7 == int(nth) - 1)
    elif item[-1] == "L":
        found = (dates.weekday == _number(item[:-1], 0, WEEKDAYS) % 7) & (dates.day + 7 > dates.length)
    else:
        to_sunday = item if item.startswith(("SUN", "0")) else re.sub("-SUN", "-7", item)
        around = [value % 7 for value in _run(to_sunday, 0, 6, WEEKDAYS)]
        found = np.isin(dates.weekday, around)
    return found


@cache
def zone_of(name: str) -> ZoneInfo:
    """Load a zone from the tzdata package, whatever the machine has."""
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@cache
def offsets(name: str) -> tuple[list[int], list[int]]:
    """List the instants (seconds since 1970) at which a zone's offset changes, and the offset from each on."""
    low, high = ((each - EPOCH).days * DAY for each in OFFSETS_KNOWN)
    starts, found = [low], [_offset(name, low)]
    for at in range(low, high, DAY):
        if _offset(name, at + DAY) != found[-1]:
            before, after = at, at + DAY
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if _offset(name, middle) == found[-1] else (before, middle)
            starts.append(after)
            found.append(_offset(name, after))
    return starts, found


def _offset(name: str, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, UTC).astimezone(zone_of(name)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


@dataclass(frozen=True)
class Fires:
    """The instants of a stretch, in seconds since 1970: at which a trigger fires, and which its gap rule skips."""

    fires: Numbers
    skipped: Numbers


def fires(reading: Reading, name: str, gap: str, overlap: str, *, start: int, end: int) -> Fires:
    """List what falls into [start, end), from every minute of the wall around it (seconds: of each minute found)."""
    first, last = start // DAY - MARGIN, end // DAY + MARGIN
    day = reading.on(CALENDAR.rows(first, last))
    minute = np.zeros((24, 60), dtype=bool)
    minute[np.ix_(reading.hours, reading.minutes)] = True
    minutes = np.flatnonzero(np.logical_and.outer(day, minute.ravel())).astype(np.int64) + first * MINUTES_A_DAY
    local = np.add.outer(minutes * 60, np.array(reading.seconds, dtype=np.int64)).ravel()
    everything = _lay_under(local, name, gap, overlap, follows=reading.hour_begins_with_star)
    return Fires(*(each[(each >= start) & (each < end)] for each in (everything.fires, everything.skipped)))


def _lay_under(local: Numbers, name: str, gap: str, overlap: str, *, follows: bool) -> Fires:
    """Find the instants of local times."""
    starts, found = offsets(name)
    times = np.zeros(len(local), dtype=np.int64)
    one, other = np.zeros(len(local), dtype=np.int64), np.zeros(len(local), dtype=np.int64)
    low, high = (int(local[0]) - 2 * DAY, int(local[-1]) + 2 * DAY) if len(local) else (0, 0)
    gaps: list[Numbers] = []
    skipped: list[Numbers] = []
    for at, offset in enumerate(found):
        begins, ends = starts[at], starts[at + 1] if at + 1 < len(starts) else (1 << 60)
        if ends < low or begins > high:
            continue
        instants = local - offset
        here = (begins <= instants) & (instants < ends)
        one = np.where(here & (times == 0), instants, one)
        other = np.where(here, instants, other)
        times += here
        if at and (length := offset - found[at - 1]) > 0 and not follows:
            missing = local[(local >= begins + found[at - 1]) & (local < begins + offset)] - found[at - 1]
            if gap == "Skip" or length > LONGEST_GAP:
                skipped.append(missing)
            else:
                gaps.append(missing if gap == "Shift" else np.full(len(missing), begins))
    picked = {"First": [one], "Second": [other], "Both": [one, other]}["Both" if follows else overlap]
    fired = _once_each([*(each[times > 0] for each in picked), *gaps])
    left = _once_each([np.array([], dtype=np.int64), *skipped])
    return Fires(fired, left[~np.isin(left, fired)] if len(left) else left)


def _once_each(parts: list[Numbers]) -> Numbers:
    merged = np.sort(np.concatenate(parts))
    kept: Numbers = merged[np.append(True, merged[1:] != merged[:-1])[: len(merged)]]
    return kept


def changes(name: str, first_year: int, last_year: int) -> list[tuple[int, int]]:
    """List the clock changes of some years, with how far the offset rises at each."""
    low, high = ((date(year, 1, 1) - EPOCH).days * DAY for year in (first_year, last_year + 1))
    starts, found = offsets(name)
    return [
        (start, after - before)
        for start, (before, after) in zip(starts[1:], pairwise(found), strict=True)
        if low <= start < high
    ]


def first_dates(reading: Reading, start: int, *, count: int) -> list[int]:
    """List the first matching dates from a date on, as days since 1970, over one cycle of the calendar and no more."""
    cycle = np.flatnonzero(reading.on(CALENDAR.rows(0, CYCLE_DAYS)))
    both = np.concatenate([cycle, cycle + CYCLE_DAYS])
    return [int(day) for day in both[both >= start][:count]]


def fires_on(reading: Reading, day: int, name: str, gap: str, overlap: str) -> list[int]:  # noqa: PLR0917
    """List what the first times of one date fire at, asking the standard library about each."""
    midnight = datetime.combine(EPOCH + timedelta(days=day), datetime.min.time())
    found: set[int] = set()
    for hour, minute, second in product(reading.hours, reading.minutes[:3], reading.seconds[:2]):
        local = midnight + timedelta(hours=hour, minutes=minute, seconds=second)
        found.update(_fires_at(local, zone_of(name), gap, overlap, follows=reading.hour_begins_with_star))
    return sorted(found)


def _fires_at(local: datetime, zone: ZoneInfo, gap: str, overlap: str, *, follows: bool) -> list[int]:
    shown = _instants(local, zone)
    if shown and (follows or overlap == "Both"):
        return shown
    if shown:
        return [shown[0 if overlap == "First" else -1]]
    before, after = (int(_of(local.replace(tzinfo=zone, fold=fold).utcoffset())) for fold in (0, 1))
    if follows or gap == "Skip" or after - before > LONGEST_GAP:
        return []
    if gap == "Shift":
        return [int(local.replace(tzinfo=UTC).timestamp()) - before]
    while not _instants(local, zone):
        local += timedelta(seconds=60 - local.second)
    return [_instants(local, zone)[0]]


def _instants(local: datetime, zone: ZoneInfo) -> list[int]:
    tried = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(int(at.timestamp()) for at in tried if at.astimezone(zone).replace(tzinfo=None) == local)


def _of(offset: Any) -> float:
    assert isinstance(offset, timedelta)
    return offset.total_seconds()
