"""The proof: fire times of what was written, compared with the crontab's own fields walked day by day.

Law: nothing here comes from `reconciler.schedule`; fire times arrive as instants, and zones are the standard library's.
Days on which the zone's clocks change are left out, since there crons differ among themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from reconciler.spec.crontab.fields import Times

DAYS: Final = 366
_DAY: Final = timedelta(days=1)
_SUNDAY: Final = 7


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of it: how many times are equal, and the first that only one side has (local time)."""

    equal: int
    days_left_out: int
    only_in_crontab: datetime | None
    only_in_definition: datetime | None

    @property
    def holds(self) -> bool:
        return self.only_in_crontab is None and self.only_in_definition is None


@dataclass(frozen=True, slots=True)
class Span:
    """The days, by a zone's calendar, over which two readings are compared."""

    first: date
    days: int
    zone: tzinfo

    def instants(self) -> tuple[datetime, datetime]:
        """Give instants with a day to spare on either side, whatever the zone's offset."""
        start = datetime.combine(self.first, time(), UTC)
        return start - 2 * _DAY, start + (self.days + 2) * _DAY

    def steady_days(self) -> list[date]:
        """List the days on which the clocks are not changed."""
        days = (self.first + at * _DAY for at in range(self.days))
        return [day for day in days if self._offset(day) == self._offset(day + _DAY)]

    def _offset(self, day: date) -> timedelta | None:
        return datetime.combine(day, time(), self.zone).utcoffset()


def prove(times: Times, fired: Iterable[datetime], span: Span) -> Proof:
    """Compare the instants at which a definition fires with what the crontab's fields say of the span's steady days."""
    steady = span.steady_days()
    expected = set(fire_times(times, steady))
    wanted = frozenset(steady)
    local = (instant.astimezone(span.zone).replace(tzinfo=None) for instant in fired)
    found = Counter(each for each in local if each.date() in wanted)
    distinct = found.keys()
    twice = {each for each, times_fired in found.items() if times_fired > 1}
    return Proof(
        equal=len(expected & distinct),
        days_left_out=span.days - len(steady),
        only_in_crontab=min(expected - distinct, default=None),
        only_in_definition=min((distinct - expected) | twice, default=None),
    )


def fire_times(times: Times, days: Iterable[date]) -> Iterator[datetime]:
    """Walk over days, hours and minutes, and give those that match all fields."""
    for day in days:
        if _on_day(times, day):
            for hour in sorted(times.hour.values):
                for minute in sorted(times.minute.values):
                    yield datetime.combine(day, time(hour, minute))


def _on_day(times: Times, day: date) -> bool:
    in_month = day.day in times.day.values
    in_week = day.isoweekday() % _SUNDAY in times.weekday.values
    either = (in_month and in_week) if times.needs_both_days else (in_month or in_week)
    return day.month in times.month.values and either
