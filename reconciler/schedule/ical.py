"""The events of an iCalendar file (RFC 5545) as windows of a calendar: days for days, instants for times.

Repeated events are written out for the years of `resolve.YEARS`. What would repeat without reason or end is refused
before it is counted, since a file comes from whoever may commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from reconciler.schedule.resolve import YEARS, LookupRefusedError, library

_RULE: Final = "calendar.ical"
_MOST: Final = 20_000
_MOST_REPEATED: Final = 200
_FIRST_YEAR: Final = 1900
"""Each time that a repeated event had before is walked through."""
_CYCLES: Final = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})
_TIMES_OF_DAY: Final = ("BYHOUR", "BYMINUTE", "BYSECOND")
_DAY: Final = timedelta(days=1)
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What the libraries raise for files that break the rules."""

Windows = list[dict[str, Any]]


def windows_of(content: bytes, zone: ZoneInfo) -> Windows:
    """List the windows of a file, sorted; times without a zone are in `zone`. Raises LookupRefusedError."""
    reader, repeater = library("icalendar"), library("recurring_ical_events")
    try:
        calendar = reader.Calendar.from_ical(content.decode("utf-8-sig"))
        _refuse_endless(calendar)
        return _windows(_occurrences(repeater.of(calendar)), zone)
    except _UNREADABLE as error:
        told = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(" :")
        what = f"an event has no {told}" if isinstance(error, LookupError) else told
        raise _refused(f"it cannot be read: {what}", "Export it again, as iCalendar (RFC 5545)") from error


def _refuse_endless(calendar: Any) -> None:
    repeated = [event for event in calendar.walk("VEVENT") if "RRULE" in event]
    if len(repeated) > _MOST_REPEATED:
        raise _refused(f"it has more than {_MOST_REPEATED} repeated events", "Split it into several calendars")
    if any(event.start.year < _FIRST_YEAR for event in repeated):
        raise _refused(f"a repeated event begins before {_FIRST_YEAR}", "Let it begin later")
    for rules in (event["RRULE"] for event in repeated):
        for rule in rules if isinstance(rules, list) else [rules]:
            cycle = str(next(iter(rule.get("FREQ", [""])), ""))
            if cycle.upper() not in _CYCLES or any(name in rule for name in _TIMES_OF_DAY):
                mend = "Write times of day as a window `daily`"
                raise _refused(f"an event repeats within a day (RRULE {rule.to_ical().decode()})", mend)


def _occurrences(repeated: Any) -> Iterator[Any]:
    """Give what happens in the years, a year at a time, so that too much is noticed early."""
    for year in YEARS:
        yield from repeated.between(date(year, 1, 1), date(year + 1, 1, 1))


def _windows(occurrences: Iterator[Any], zone: ZoneInfo) -> Windows:
    days: set[str] = set()
    spans: set[tuple[str, str]] = set()
    taken = 0
    for event in occurrences:
        if str(event.get("STATUS", "")).upper() == "CANCELLED":
            continue
        if isinstance(event.start, datetime):
            spans.add((_instant(event.start, zone), _instant(event.end, zone)))
            taken += 1
        else:
            listed = list(_days(event.start, event.end))
            days.update(listed)
            taken += len(listed)
        if taken > _MOST:
            raise _refused(f"it comes to more than {_MOST:,} days", "Take out events, or write weekdays or daily")
    windows: Windows = [{"dates": sorted(days)}] if days else []
    return windows + [{"from": first, "to": last} for first, last in sorted(spans) if first < last]


def _days(first: date, end: date) -> Iterator[str]:
    """List the days of an event; `end` is the day after its last, or missing where it is one day long."""
    day = first
    while True:
        yield day.isoformat()
        day += _DAY
        if day >= end or day.year not in YEARS:
            return


def _instant(moment: datetime, zone: ZoneInfo) -> str:
    """Write an instant in UTC, to the second, so that texts sort as instants do."""
    known = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
    return known.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _refused(what: str, mend: str) -> LookupRefusedError:
    return LookupRefusedError(_RULE, what, mend, part="ical")
