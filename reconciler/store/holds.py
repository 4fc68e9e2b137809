"""What people hold back, by a pause or a suspension, and what comes back when the hold ends.

Law: a slot that a hold recorded runs after all where it is due only after the hold has ended, by what its trigger and
its calendars say then; its ledger row goes in the transaction that makes the run (S1). What fell due meanwhile stays
recorded. A slot of before the activation never comes back: it is not what the trigger says now (S6).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, or_, select, update

from reconciler.model.lease import Term
from reconciler.model.policy import DEFAULT_MISFIRE
from reconciler.model.run import SkipReason
from reconciler.schedule import TimingError
from reconciler.schedule.timeline import Planned, Timeline
from reconciler.store import pauses, timelines
from reconciler.store.database import Tx
from reconciler.store.ledger import Kept, make_runs
from reconciler.store.slots import with_job
from reconciler.store.tables import definitions
from reconciler.store.trigger_tables import slots, triggers

Held = tuple[SkipReason, str | None]
"""Why nothing of a trigger may start, as the ledger says it."""

SUSPENDED: Final[Held] = SkipReason.SUSPENDED, None
LOOKS_BACK: Final = 1000
"""Slots of one trigger that may be due still, or on time, as its hold ends."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A slot that a hold recorded, as its trigger plans it now."""

    planned: Planned
    recorded_us: int


def lock(tx: Tx, *which: ColumnElement[bool]) -> None:
    """Let no pause begin for these triggers until this transaction is over; one that is on is seen from here on."""
    tx.execute(select(triggers.c.id).where(*which).order_by(triggers.c.id).with_for_update(key_share=True)).all()


def held(tx: Tx, found: Sequence[Any], now_us: int) -> dict[int, Held]:
    """Say which of these triggers are held back now, by id, and why; nobody pauses them before the transaction ends."""
    lock(tx, tx.among(triggers.c.id, [each.id for each in found]))
    paused = pauses.by_job(tx, {each.job for each in found})
    on = {job: each.told for job, known in paused.items() for each in reversed(known) if each.is_on(now_us)}
    because: dict[int, Held] = {each.id: (SkipReason.PAUSED, on[each.job]) for each in found if each.job in on}
    return because | {each.id: SUSPENDED for each in found if each.is_suspended}


def recorded(
    tx: Tx, trigger: Any, line: Timeline, reason: SkipReason, *, since_us: int = 0, most: int = LOOKS_BACK
) -> list[Recorded]:
    """Give the newest slots that a hold recorded and that the trigger would still run, oldest first."""
    query = (
        select(slots.c.slot_us, slots.c.recorded_us)
        .where(
            slots.c.trigger_id == trigger.id,
            slots.c.reason == str(reason),
            slots.c.recorded_us >= since_us,
            slots.c.slot_us > trigger.activated_us,
        )
        .order_by(slots.c.slot_us.desc())
        .limit(most)
    )
    found = []
    for row in tx.execute(query).all()[::-1]:
        made = line.between(row.slot_us - 1, row.slot_us, limit=1)
        found += [Recorded(each, row.recorded_us) for each in made if each.reason is None]
    return found


def lines(tx: Tx, found: Sequence[Any]) -> dict[int, Timeline]:
    """Lay out the slots of triggers, by id; what cannot be read is left to `settle`, which tells of it (X2)."""
    resolved = timelines.calendars_of(tx, (each.timing for each in found))
    laid = {}
    for each in found:
        with contextlib.suppress(TimingError, ValueError, LookupError):
            laid[each.id] = timelines.timeline_of(each.timing, each.activated_us, (each.job, each.name), resolved)
    return laid


def run_after_all(tx: Tx, kept: Sequence[Kept], *, now_us: int, by: str) -> int:
    """Make runs of slots instead of their ledger rows; give how many."""
    _delete(tx, [(step.trigger.id, each.slot_us) for step in kept for each in step.decisions])
    return len(make_runs(tx, kept, now_us=now_us, by=by))


def hand_over(tx: Tx, told: Mapping[tuple[int, int], Held], *, now_us: int, by: str) -> None:
    """Note that recorded slots, by trigger and instant, are held back by something else from now on."""
    if not told:
        return
    rows = [(*key, str(reason), detail) for key, (reason, detail) in sorted(told.items(), key=lambda each: each[0])]
    given = tx.rows("given", {"id": int, "slot_us": int, "reason": str, "detail": str}, rows)
    tx.execute(
        update(slots)
        .where(slots.c.trigger_id == given.c.id, slots.c.slot_us == given.c.slot_us)
        .values(reason=given.c.reason, detail=given.c.detail, recorded_us=now_us, recorded_by=by)
    )


def suspended(tx: Tx, definition_ids: Collection[int]) -> set[int]:
    """Give the live triggers of these definitions that git suspends now, alone or with their job."""
    query = (
        select(triggers.c.id)
        .join(definitions, definitions.c.id == triggers.c.definition_id)
        .where(
            tx.among(triggers.c.definition_id, definition_ids),
            or_(definitions.c.suspended, triggers.c.suspended),
            triggers.c.removed_us.is_(None),
        )
    )
    return set(tx.execute(query).scalars())


def end_suspensions(tx: Tx, term: Term, trigger_ids: Collection[int], now_us: int) -> None:
    """Let slots run that are still to come and that were recorded for these triggers while git suspended them."""
    if not trigger_ids:
        return
    found = tx.execute(with_job(tx.among(triggers.c.id, trigger_ids), triggers.c.removed_us.is_(None))).all()
    laid, because, by = lines(tx, found), held(tx, found, now_us), f"leader/{term.number}"
    kept: list[Kept] = []
    told: dict[tuple[int, int], Held] = {}
    for trigger in found:
        if trigger.id not in laid:
            continue
        known = recorded(tx, trigger, laid[trigger.id], SkipReason.SUSPENDED)
        planned = [each.planned for each in known if each.planned.due_us > now_us]
        if trigger.id in because:
            told |= {(trigger.id, each.slot_us): because[trigger.id] for each in planned}
        else:
            deadline_us = timelines.rules_of(trigger.rules, DEFAULT_MISFIRE).starting_deadline_us
            kept.append(Kept(trigger, planned, deadline_us))
    hand_over(tx, told, now_us=now_us, by=by)
    run_after_all(tx, kept, now_us=now_us, by=by)


def _delete(tx: Tx, keys: Sequence[tuple[int, int]]) -> None:
    if not keys:
        return
    taken = tx.rows("taken", {"id": int, "slot_us": int}, sorted(keys))
    mine = select(taken.c.id).where(taken.c.id == slots.c.trigger_id, taken.c.slot_us == slots.c.slot_us)
    tx.execute(delete(slots).where(mine.exists()))
