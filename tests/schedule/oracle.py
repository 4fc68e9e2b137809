"""Slots found the slow way: every local minute of a stretch, asked of the standard library one by one.

Nothing here shares code with `reconciler.schedule`: fields come as sets, and instants from `fold` round trips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
LONGEST_GAP = timedelta(hours=3)


@dataclass(frozen=True)
class Spelled:
    """One field: its text, and the values that text means."""

    text: str
    values: frozenset[int]

    @property
    def is_star(self) -> bool:
        return self.text.startswith("*")


@dataclass(frozen=True)
class Expression:
    minute: Spelled
    hour: Spelled
    day: Spelled
    month: Spelled
    weekday: Spelled

    @property
    def text(self) -> str:
        return " ".join(field.text for field in (self.minute, self.hour, self.day, self.month, self.weekday))

    def on_day(self, day: date) -> bool:
        in_month = day.day in self.day.values
        in_week = day.isoweekday() % 7 in self.weekday.values
        both = self.day.is_star or self.weekday.is_star
        return day.month in self.month.values and (in_month and in_week if both else in_month or in_week)

    def at(self, local: datetime) -> bool:
        return local.minute in self.minute.values and local.hour in self.hour.values and self.on_day(local.date())


def slots_by_brute_force(expression: Expression, zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
    """Every slot in (after, until], by walking all local minutes from two days before to two days after."""
    found: set[datetime] = set()
    local = after.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0) - timedelta(days=2)
    while local < until.astimezone(zone).replace(tzinfo=None) + timedelta(days=2):
        if expression.at(local):
            found.update(_fires_at(local, zone, follows_elapsed_time=expression.hour.is_star))
        local += MINUTE
    return sorted(slot for slot in found if after < slot <= until)


def _fires_at(local: datetime, zone: ZoneInfo, *, follows_elapsed_time: bool) -> Iterator[datetime]:
    instants = _instants(local, zone)
    if follows_elapsed_time:
        yield from instants
    elif instants:
        yield instants[0]
    else:
        first, last = local, local
        while not _instants(first - MINUTE, zone):
            first -= MINUTE
        while not _instants(last, zone):
            last += MINUTE
        if last - first <= LONGEST_GAP:
            yield _instants(last, zone)[0]


def _instants(local: datetime, zone: ZoneInfo) -> list[datetime]:
    tried = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(instant for instant in tried if instant.astimezone(zone).replace(tzinfo=None) == local)
