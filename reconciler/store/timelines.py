"""From what the store holds of a trigger to its timeline: stored texts, compiled once each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from sqlalchemy import select

from reconciler.model.definition import DEFAULT_TIME_ZONE, timing_from
from reconciler.model.policy import Misfire
from reconciler.model.trigger import Rules, frame_from, rules_from
from reconciler.schedule.calendar import Calendar, calendar_from
from reconciler.schedule.timeline import Timeline, timeline
from reconciler.store.database import Tx
from reconciler.store.definitions import named, triggers_of
from reconciler.store.trigger_tables import calendars

Resolved = Mapping[str, str]
"""The windows of calendars, as resolved, by name."""
NO_CALENDARS: Final[Resolved] = MappingProxyType({})


def calendars_of(tx: Tx, timings: Iterable[str]) -> Resolved:
    """Load the calendars that these timings name; no statement is needed where none does."""
    named = {name for timing in timings if '"calendars"' in timing for name in calendar_names(timing)}
    if not named:
        return NO_CALENDARS
    query = select(calendars.c.name, calendars.c.windows).where(tx.among(calendars.c.name, named))
    return {row.name: row.windows for row in tx.execute(query)}


def timeline_of(timing: str, activated_us: int, name: tuple[str, str], resolved: Resolved = NO_CALENDARS) -> Timeline:
    """Compile a stored timing of the trigger `name` (its job's and its own). Raises TimingError, KeyError.

    The same texts are compiled once.
    """
    used = tuple((each, resolved[each]) for each in sorted(calendar_names(timing))) if '"calendars"' in timing else ()
    return _compiled(timing, activated_us, name, used)


@dataclass(frozen=True, slots=True)
class LiveTimeline:
    """The slots of a live trigger, and the zone that its texts are in."""

    trigger: str
    timeline: Timeline
    zone: str


def of_job(tx: Tx, job: str) -> list[LiveTimeline]:
    """Give the timelines of a live job's triggers. Raises NotFoundError."""
    found = [each for each in triggers_of(tx, [named(tx, job).id]) if each.removed_us is None]
    calendars = calendars_of(tx, (each.timing for each in found))
    return [
        LiveTimeline(
            each.name,
            timeline_of(each.timing, each.activated_us, (job, each.name), calendars),
            json.loads(each.timing).get("timeZone", DEFAULT_TIME_ZONE),
        )
        for each in found
    ]


@lru_cache(maxsize=8192)
def calendar_names(timing: str) -> frozenset[str]:
    """Tell which calendars a stored timing names."""
    return frozenset(each.name for each in frame_from(json.loads(timing)).calendars)


@lru_cache(maxsize=1024)
def rules_of(rules: str, default: Misfire) -> Rules:
    """Compile stored rules."""
    return rules_from(json.loads(rules), default)


@lru_cache(maxsize=131_072)
def _compiled(timing: str, activated_us: int, name: tuple[str, str], used: tuple[tuple[str, str], ...]) -> Timeline:
    document = json.loads(timing)
    return timeline(
        timing_from(document),
        frame_from(document),
        activated_us=activated_us,
        name=name,
        calendars={each: _calendar(windows) for each, windows in used},
    )


@lru_cache(maxsize=256)
def _calendar(windows: str) -> Calendar:
    return calendar_from(json.loads(windows))
