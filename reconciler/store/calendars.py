"""Calendars as the leader resolved them, and the triggers that mind them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select

from reconciler.model.definition import canonical
from reconciler.model.kinds import Calendar
from reconciler.schedule.resolve import resolve
from reconciler.store import timelines
from reconciler.store.database import Tx
from reconciler.store.slots import with_job
from reconciler.store.trigger_tables import calendars, triggers


@dataclass(frozen=True, slots=True)
class StoredCalendar:
    """A calendar with every date written out; `resolved_with` names what was asked for them, `last_day` their end."""

    name: str
    windows: str
    resolved_with: str
    resolved_us: int
    last_day: str | None


def declare(tx: Tx, declared: Sequence[Calendar], *, gone: Sequence[str], now_us: int) -> frozenset[str]:
    """Write down when calendars are closed, and give the names of those for which that changed.

    Holidays are looked up here, once: what is stored holds for every node until the calendar is declared anew. The
    caller has proved its term. Raises LookupRefusedError.
    """
    if not declared and not gone:
        return frozenset()
    names = [*gone, *(each.name for each in declared)]
    known = select(calendars.c.name, calendars.c.windows).where(tx.among(calendars.c.name, names))
    before = {row.name: row.windows for row in tx.execute(known)}
    tx.execute(delete(calendars).where(tx.among(calendars.c.name, names)))
    found = {each.name: resolve(each.spec) for each in declared}
    texts = {name: canonical(each.document) for name, each in found.items()}
    if found:
        tx.execute(
            insert(calendars),
            [
                {
                    "name": name,
                    "windows": texts[name],
                    "resolved_with": each.resolved_with,
                    "resolved_us": now_us,
                    "last_day": each.last_day,
                }
                for name, each in found.items()
            ],
        )
    return frozenset(name for name, text in texts.items() if before.get(name) != text)


def minding(tx: Tx, names: Collection[str]) -> Sequence[Any]:
    """Give the live triggers that mind one of these calendars, with what their slots get of their jobs."""
    if not names:
        return []
    listed = tx.execute(with_job(triggers.c.removed_us.is_(None), triggers.c.timing.contains('"calendars"'))).all()
    return [each for each in listed if not timelines.calendar_names(each.timing).isdisjoint(names)]


def stored(tx: Tx, name: str | None = None) -> list[StoredCalendar]:
    """List the calendars as they were resolved, by name, or the one of that name."""
    query = select(calendars).order_by(calendars.c.name)
    if name is not None:
        query = query.where(calendars.c.name == name)
    return [
        StoredCalendar(row.name, row.windows, row.resolved_with, row.resolved_us, row.last_day)
        for row in tx.execute(query)
    ]
