"""Deferred slots whose one run is still to come, when what was planned for it does not hold any more.

A deferred slot is recorded at once, and the run that stands for it is that of a later slot. Where that slot is planned
away, by another calendar or another timing, the deferred slot runs itself: nothing that was promised is lost. What a
pause or a suspension holds back does not run then either: it is recorded as held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, func, select, update

from reconciler.model.lease import Term
from reconciler.model.policy import DEFAULT_MISFIRE
from reconciler.model.run import SkipReason
from reconciler.schedule.timeline import Planned, release_told
from reconciler.store import holds, timelines
from reconciler.store.database import Tx
from reconciler.store.ledger import Kept
from reconciler.store.slots import with_job
from reconciler.store.tables import run_history, runs
from reconciler.store.trigger_tables import slots, triggers


def open_ended(tx: Tx, trigger_ids: Sequence[int], now_us: int) -> dict[int, int]:
    """Give the last deferred slot of each trigger that still waits and has no later run, by trigger.

    A later run stands for it also when it is over; and once the instant has passed to which it was deferred, whatever
    was to become of it has become of it, whether or not its run is still known.
    """
    deferred = tx.among(slots.c.trigger_id, trigger_ids), slots.c.reason == str(SkipReason.DEFERRED)
    last = select(slots.c.trigger_id, func.max(slots.c.slot_us).label("slot_us")).where(*deferred)
    newest = last.group_by(slots.c.trigger_id).subquery("newest")
    mine = and_(slots.c.trigger_id == newest.c.trigger_id, slots.c.slot_us == newest.c.slot_us)
    found = tx.execute(select(slots).join(newest, mine)).all()
    waiting = {each.trigger_id: each for each in found if release_told(each.detail) > now_us}
    came = _with_later_run(tx, list(waiting.values()))
    return {key: each.slot_us for key, each in waiting.items() if key not in came}


def _with_later_run(tx: Tx, recorded: Sequence[Any]) -> set[int]:
    """Give the triggers of ledger rows that have a run, live or over, of a slot later than the row's."""
    if not recorded:
        return set()
    rows = [(each.trigger_id, each.definition_id, each.slot_us) for each in recorded]
    given = tx.rows("given", {"id": int, "definition_id": int, "slot_us": int}, rows)
    came: set[int] = set()
    for of in (runs, run_history):
        later = select(of.c.slot_us).where(
            of.c.definition_id == given.c.definition_id,  # what the index goes by
            of.c.trigger_id == given.c.id,
            of.c.slot_us > given.c.slot_us,
        )
        came.update(tx.execute(select(given.c.id).where(later.exists())).scalars())
    return came


def note(tx: Tx, waiting: Mapping[int, Planned]) -> None:
    """Write down until when slots wait by the calendars of now, by trigger."""
    if not waiting:
        return
    rows = [(key, each.slot_us, each.detail) for key, each in sorted(waiting.items())]
    given = tx.rows("given", {"id": int, "slot_us": int, "detail": str}, rows)
    mine = slots.c.trigger_id == given.c.id, slots.c.slot_us == given.c.slot_us
    tx.execute(update(slots).where(*mine).values(detail=given.c.detail))


def take_up(tx: Tx, term: Term, alone: Mapping[int, tuple[int, int]], now_us: int) -> None:
    """Make runs of deferred slots instead of their ledger rows; `alone` gives slot and due instant by trigger."""
    if not alone:
        return
    found = tx.execute(with_job(tx.among(triggers.c.id, list(alone)))).all()
    because, by = holds.held(tx, found, now_us), f"leader/{term.number}"
    kept = []
    for trigger in (each for each in found if each.id not in because):
        slot_us, due_us = alone[trigger.id]
        deadline_us = timelines.rules_of(trigger.rules, DEFAULT_MISFIRE).starting_deadline_us
        kept.append(Kept(trigger, [Planned(slot_us, max(due_us, now_us))], deadline_us))
    told = {(key, alone[key][0]): why for key, why in because.items()}
    holds.hand_over(tx, told, now_us=now_us, by=by)
    holds.run_after_all(tx, kept, now_us=now_us, by=by)
