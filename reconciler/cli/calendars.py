"""Calendars as people look at them: open or closed, until when, who minds them, and what their dates come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from reconciler.cli import show, tables
from reconciler.clock import iso
from reconciler.errors import NotFoundError
from reconciler.model import kinds
from reconciler.model.definition import canonical
from reconciler.schedule.calendar import NEVER, Calendar, calendar_from
from reconciler.schedule.resolve import LookupRefusedError, resolve
from reconciler.store import calendars, definitions
from reconciler.store.calendars import StoredCalendar
from reconciler.store.database import Tx
from reconciler.store.definitions import StoredDefinition

COLUMNS: Final = ("name", "mode", "timeZone", "state", "until", "jobs", "resolvedWith", "file", "line")
_LISTED: Final = 10_000
_CLOSURES: Final = 5
_DATES: Final = 8


def rows(tx: Tx) -> list[show.Row]:
    """List the live calendars by name."""
    declared = {each.name: each for each in definitions.listed(tx, limit=_LISTED, kind=kinds.Calendar.kind)}
    minding = _minding(tx)
    return [
        _row(each, declared[each.name], minding.get(each.name, []), tx.now_us())
        for each in calendars.stored(tx)
        if each.name in declared
    ]


def shown(tx: Tx, name: str) -> dict[str, Any]:
    """Show one calendar, and when it is closed next. Raises NotFoundError."""
    declared = {each.name: each for each in definitions.listed(tx, limit=_LISTED, kind=kinds.Calendar.kind)}
    found = next(iter(calendars.stored(tx, name)), None)
    if found is None or name not in declared:
        raise NotFoundError(f"there is no calendar {name!r}; `reconciler get calendars` lists them")
    now_us = tx.now_us()
    document = json.loads(found.windows)
    return {
        "formatVersion": show.FORMAT_VERSION,
        **_row(found, declared[name], _minding(tx).get(name, []), now_us),
        "description": declared[name].document["spec"].get("description", ""),
        "lastDay": found.last_day,
        "resolvedAt": iso(found.resolved_us),
        "outdated": outdated(found, declared[name]),
        "windows": document["windows"],
        "closures": _closures(calendar_from(document), now_us),
    }


def text(value: Mapping[str, Any]) -> str:
    """Draw one calendar for people."""
    apart = {"formatVersion", "windows", "closures"}
    closures = tables.table(value["closures"], ["from", "until"]) if value["closures"] else "it does not close"
    windows = "\n".join(f"  {_window(each)}" for each in value["windows"])
    return "\n\n".join(
        [
            tables.facts((key, each) for key, each in value.items() if key not in apart and each not in (None, "")),
            f"{tables.heading('windows')}\n{windows}",
            f"{tables.heading('closed next')}\n{closures}",
        ]
    )


def outdated(found: StoredCalendar, declared: StoredDefinition) -> str | None:
    """Say that the holidays known here differ from those that were stored; None where they agree, or none are."""
    if not found.resolved_with:
        return None
    try:
        now = resolve(declared.document["spec"])
    except (LookupRefusedError, KeyError):
        return None
    if canonical(now.document) == found.windows:
        return None
    return f"{now.resolved_with} gives other dates than {found.resolved_with}: edit the calendar to take them"


def _row(found: StoredCalendar, declared: StoredDefinition, jobs: list[str], now_us: int) -> dict[str, Any]:
    document = json.loads(found.windows)
    calendar = calendar_from(document)
    closed_us = calendar.closed_until(now_us)
    until_us = calendar.open_until(now_us) if closed_us is None else closed_us
    return {
        "name": found.name,
        "mode": document.get("mode", "Blackout"),
        "timeZone": document.get("timeZone", "UTC"),
        "state": "Open" if closed_us is None else "Closed",
        "until": None if until_us in {None, NEVER} else show.maybe(until_us),
        "jobs": jobs,
        "resolvedWith": found.resolved_with or None,
        "file": declared.file,
        "line": declared.line,
    }


def _minding(tx: Tx) -> dict[str, list[str]]:
    """Give the jobs whose triggers mind each calendar."""
    found: dict[str, set[str]] = {}
    for trigger in calendars.minding(tx, {each.name for each in calendars.stored(tx)}):
        for use in json.loads(trigger.timing)["calendars"]:
            found.setdefault(use["name"], set()).add(trigger.job)
    return {name: sorted(jobs) for name, jobs in found.items()}


def _closures(calendar: Calendar, at_us: int) -> list[dict[str, str | None]]:
    """List the next times at which it is closed, the one that is on now included."""
    listed: list[dict[str, str | None]] = []
    while len(listed) < _CLOSURES:
        if (until_us := calendar.closed_until(at_us)) is None:
            opens_us = calendar.open_until(at_us)
            if opens_us is None or opens_us == NEVER:
                break
            at_us, until_us = opens_us, calendar.closed_until(opens_us)
        is_last = until_us is None or until_us == NEVER
        listed.append({"from": iso(at_us), "until": None if is_last else show.maybe(until_us)})
        if until_us is None or is_last:
            break
        at_us = until_us
    return listed


def _window(window: Mapping[str, Any]) -> str:
    dates = window.get("dates", ())
    if len(dates) <= _DATES:
        return json.dumps(window, ensure_ascii=False)
    return f"{len(dates)} dates, {dates[0]} to {dates[-1]}"
