"""Calendars as people look at them: open or closed, until when, who minds them, and what their dates come from."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Live:
    """A live calendar: when it is closed, as the leader resolved it, and where it is declared."""

    stored: StoredCalendar
    declared: StoredDefinition

    def outdated(self) -> str | None:
        """Say that the holidays known here differ from those that were stored; None where they agree, or none are."""
        if not self.stored.resolved_with:
            return None
        try:
            now = resolve(self.declared.document["spec"])
        except (LookupRefusedError, KeyError):
            return None
        if canonical(now.document) == self.stored.windows:
            return None
        return f"{now.resolved_with} gives other dates than {self.stored.resolved_with}: edit the calendar to take them"


def live(tx: Tx, name: str | None = None) -> list[Live]:
    """List the live calendars by name, or the one of that name."""
    declared = {each.name: each for each in definitions.listed(tx, limit=_LISTED, kind=kinds.Calendar.kind)}
    return [Live(each, declared[each.name]) for each in calendars.stored(tx, name) if each.name in declared]


def rows(tx: Tx) -> list[show.Row]:
    """List the live calendars as they are now."""
    return _rows(tx, live(tx))


def shown(tx: Tx, name: str) -> dict[str, Any]:
    """Show one calendar, and when it is closed next. Raises NotFoundError."""
    found = live(tx, name)
    if not found:
        raise NotFoundError(f"there is no calendar {name!r}; `reconciler get calendars` lists them")
    (calendar,), (row,) = found, _rows(tx, found)
    document = json.loads(calendar.stored.windows)
    return {
        "formatVersion": show.FORMAT_VERSION,
        **row,
        "description": calendar.declared.document["spec"].get("description", ""),
        "lastDay": calendar.stored.last_day,
        "resolvedAt": iso(calendar.stored.resolved_us),
        "outdated": calendar.outdated(),
        "windows": document["windows"],
        "closures": _closures(calendar_from(document), tx.now_us()),
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


def _rows(tx: Tx, found: Sequence[Live]) -> list[show.Row]:
    minding = _minding(tx, {each.stored.name for each in found})
    return [_row(each, minding.get(each.stored.name, set()), tx.now_us()) for each in found]


def _row(live: Live, jobs: Collection[str], now_us: int) -> dict[str, Any]:
    document = json.loads(live.stored.windows)
    calendar = calendar_from(document)
    closed_us = calendar.closed_until(now_us)
    until_us = calendar.open_until(now_us) if closed_us is None else closed_us
    return {
        "name": live.stored.name,
        "mode": document.get("mode", "Blackout"),
        "timeZone": document.get("timeZone", "UTC"),
        "state": "Open" if closed_us is None else "Closed",
        "until": None if until_us in {None, NEVER} else show.maybe(until_us),
        "jobs": sorted(jobs),
        "resolvedWith": live.stored.resolved_with or None,
        "file": live.declared.file,
        "line": live.declared.line,
    }


def _minding(tx: Tx, names: Collection[str]) -> dict[str, set[str]]:
    """Give the jobs whose triggers mind each of these calendars."""
    found: dict[str, set[str]] = {}
    for trigger in calendars.minding(tx, names):
        for use in json.loads(trigger.timing)["calendars"]:
            found.setdefault(use["name"], set()).add(trigger.job)
    return found


def _closures(calendar: Calendar, at_us: int) -> list[dict[str, str | None]]:
    """List the next times at which it is closed, the one that is on now included."""
    listed: list[dict[str, str | None]] = []
    begins_us = calendar.open_until(at_us) or at_us
    while begins_us < NEVER and len(listed) < _CLOSURES:
        ends_us = calendar.closed_until(begins_us) or NEVER
        listed.append({"from": iso(begins_us), "until": None if ends_us == NEVER else iso(ends_us)})
        begins_us = NEVER if ends_us == NEVER else calendar.open_until(ends_us) or NEVER
    return listed


def _window(window: Mapping[str, Any]) -> str:
    dates = window.get("dates", ())
    if len(dates) <= _DATES:
        return json.dumps(window, ensure_ascii=False)
    return f"{len(dates)} dates, {dates[0]} to {dates[-1]}"
