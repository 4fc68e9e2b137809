"""Calendars on the two sides of a plan, and the jobs that a changed calendar reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.model import kinds
from reconciler.model.definition import Job, Json
from reconciler.model.kinds import Key
from reconciler.plan.diff import Broken, Change, Create, Delete, Plan, Stored, Unchanged, Update
from reconciler.schedule import TimingError
from reconciler.schedule.calendar import Calendar
from reconciler.schedule.resolve import LookupRefusedError, built

Calendars = Mapping[str, Calendar]


@dataclass(frozen=True, slots=True)
class Closures:
    """The calendars after and before a plan, by name; what cannot be looked up here is in neither."""

    after: Calendars
    before: Calendars


def closures(plan: Plan) -> Closures:
    """Build the calendars of both sides of a plan."""
    after: dict[str, Calendar] = {}
    before: dict[str, Calendar] = {}
    for change in plan.changes:
        kind, name = key_of(change)
        if kind != kinds.Calendar.kind:
            continue
        documents = _documents(change)
        for side, document in zip((after, before), documents, strict=True):
            if document is not None and (calendar := _calendar(document)) is not None:
                side[name] = calendar
    return Closures(after, before)


def reached(plan: Plan, calendar: str) -> list[Unchanged]:
    """List the jobs that mind a calendar and do not change themselves."""
    return [
        change
        for change in plan.changes
        if isinstance(change, Unchanged)
        and isinstance(job := change.definition.declared, Job)
        and any(
            each["name"] == calendar
            for trigger in job.triggers
            for each in trigger.timing_document.get("calendars", ())
        )
    ]


def key_of(change: Change) -> Key:
    """Give what a change is about."""
    match change:
        case Create(definition) | Update(definition, _, _) | Unchanged(definition, _):
            return definition.key
        case Delete(stored):
            return stored.key
        case Broken(key, _, _):
            return key


def _documents(change: Change) -> tuple[Mapping[str, Json] | None, Mapping[str, Json] | None]:
    match change:
        case Create(definition):
            return definition.declared.document, None
        case Update(definition, stored, _) | Unchanged(definition, stored):
            return definition.declared.document, stored.document
        case Delete(stored):
            return None, stored.document
        case Broken(_, _, stored):
            return _of(stored), _of(stored)


def _of(stored: Stored | None) -> Mapping[str, Json] | None:
    return None if stored is None else stored.document


def _calendar(document: Mapping[str, Json]) -> Calendar | None:
    """Build a calendar; None if its holidays cannot be looked up here, or what is stored cannot be read."""
    try:
        return built(document["spec"])
    except (LookupRefusedError, TimingError, LookupError, ValueError):
        return None
