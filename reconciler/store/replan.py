"""How triggers follow what they depend on: a calendar that was declared anew, or other time-zone data.

Slots that have passed stay as they were decided; what was made ahead is taken back and planned again from now on. The
new activation counts from where the old one did, so that an interval keeps its beat. A run that waits for a calendar to
open follows the calendar.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, or_, select, update

from reconciler.model.lease import Term
from reconciler.model.run import SkipReason
from reconciler.schedule.timeline import Timeline
from reconciler.store import activations, calendars, deferred, holds
from reconciler.store.database import Tx, in_states
from reconciler.store.leader import guard
from reconciler.store.ledger import AHEAD, Kept, lived, record_skips
from reconciler.store.order import order_key_of
from reconciler.store.slots import with_job
from reconciler.store.tables import runs
from reconciler.store.trigger_tables import triggers

Planning = tuple[Any, Timeline]
"""A trigger with what its slots get of its job, and its slots as they are planned now."""


Cursor = tuple[Any, Timeline, int]
"""The same, and where its cursor is to stand."""


def replan(tx: Tx, term: Term, names: Collection[str], now_us: int) -> None:
    """Plan the triggers anew that mind one of these calendars; what they owed up to now is settled already."""
    lines = _lines(tx, calendars.minding(tx, names))
    _set_back(tx, term, _lived_until(tx, lines, now_us), now_us)


def by_local_time(tx: Tx, *, term: Term, after_id: int, limit: int) -> list[int]:
    """Plan triggers anew that go by local time, since the zone data changed; give the ids of this batch, in order.

    A slot that the new data puts before now, and the old had put after it, is still to come: the cursor goes back to
    the last slot that was settled. Raises NotLeaderError.
    """
    guard(tx, term)
    local = or_(triggers.c.timing.contains('"timeZone"'), triggers.c.timing.contains('"calendars"'))
    batch = with_job(local, triggers.c.removed_us.is_(None), triggers.c.id > after_id)
    now_us = tx.now_us()
    found = tx.execute(batch.order_by(triggers.c.id).limit(limit)).all()
    lines = _lines(tx, found)
    cursors = _lived_until(tx, lines, now_us)
    settled = {key: (each, line, min(each.cursor_us, at_us)) for key, (each, line, at_us) in cursors.items()}
    _set_back(tx, term, settled, now_us)
    return [each.id for each in found]


def _lines(tx: Tx, found: Sequence[Any]) -> dict[int, Planning]:
    """Lay out the slots of triggers, by id; what cannot be read is left to `settle`, which tells of it (X2)."""
    laid = holds.lines(tx, found)
    return {each.id: (each, laid[each.id]) for each in found if each.id in laid}


def _lived_until(tx: Tx, lines: Mapping[int, Planning], now_us: int) -> dict[int, Cursor]:
    """Say up to where each trigger's slots have been, whatever the clock says now."""
    before_us = lived(tx, list(lines), now_us)
    return {
        key: (each, line, max(now_us, each.settled_us, before_us.get(key, 0))) for key, (each, line) in lines.items()
    }


def _set_back(tx: Tx, term: Term, cursors: Mapping[int, Cursor], now_us: int) -> None:
    """Put cursors where they are told to stand, and take back and move what was planned beyond."""
    if not cursors:
        return
    rows = [(key, cursor_us, line.next_after(cursor_us)) for key, (_, line, cursor_us) in sorted(cursors.items())]
    given = tx.rows("given", {"id": int, "cursor_us": int, "next_fire_us": int}, rows)
    tx.execute(
        update(triggers)
        .where(triggers.c.id == given.c.id)
        .values(activation=triggers.c.activation + 1, cursor_us=given.c.cursor_us, next_fire_us=given.c.next_fire_us)
    )
    activations.withdraw(tx, list(cursors))
    lines = {key: (each, line) for key, (each, line, _) in cursors.items()}
    _move_waiting(tx, term, lines, now_us)
    _take_up_deferred(tx, term, lines, now_us)


def _move_waiting(tx: Tx, term: Term, lines: Mapping[int, Planning], now_us: int) -> None:
    """Let the runs that wait be due when the calendars open now; those that join a later slot become ledger rows.

    What is due stays as it was decided, whether or not it was promoted yet.
    """
    mine = tx.among(runs.c.trigger_id, list(lines)), in_states(runs.c.state, AHEAD), runs.c.due_us > now_us
    waiting = select(runs.c.id, runs.c.trigger_id, runs.c.slot_us, runs.c.due_us).where(*mine)
    moved: list[tuple[int, int]] = []
    dropped: list[tuple[int, Kept]] = []
    for run in tx.execute(waiting.order_by(runs.c.id).with_for_update()).all():
        trigger, line = lines[run.trigger_id]
        planned = line.plan(run.slot_us)
        due_us = max(planned.due_us, now_us)
        if planned.reason is not None:
            dropped.append((run.id, Kept(trigger, [planned], None)))
        elif due_us != run.due_us:
            moved.append((run.id, due_us))
    _note_due(tx, moved)
    if dropped:
        tx.execute(delete(runs).where(tx.among(runs.c.id, [run_id for run_id, _ in dropped])))
        record_skips(tx, [kept for _, kept in dropped], now_us=now_us, by=f"leader/{term.number}")


def _take_up_deferred(tx: Tx, term: Term, lines: Mapping[int, Planning], now_us: int) -> None:
    """Let a slot run whose run was to be that of a later one, if the calendar does not hold it so long any more."""
    alone, waiting = {}, {}
    for trigger_id, slot_us in deferred.open_ended(tx, list(lines), now_us).items():
        planned = lines[trigger_id][1].plan(slot_us)
        if planned.reason is None:
            alone[trigger_id] = slot_us, planned.due_us
        elif planned.reason is SkipReason.DEFERRED:
            waiting[trigger_id] = planned
    deferred.note(tx, waiting)
    deferred.take_up(tx, term, alone, now_us)


def _note_due(tx: Tx, moved: Sequence[tuple[int, int]]) -> None:
    if not moved:
        return
    given = tx.rows("given", {"id": int, "due_us": int}, moved)
    tx.execute(
        update(runs)
        .where(runs.c.id == given.c.id)
        .values(
            due_us=given.c.due_us,
            expires_us=runs.c.expires_us + given.c.due_us - runs.c.due_us,
            order_key=order_key_of(given.c.due_us, runs.c.priority, runs.c.requirement_id),
        )
    )
