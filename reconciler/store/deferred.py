"""Deferred slots whose one run is still to come, when what was planned for it does not hold any more.

A deferred slot is recorded at once, and the run that stands for it is that of a later slot. Where that slot is planned
away, by another calendar or another timing, the deferred slot runs itself: nothing that was promised is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, func, select

from reconciler.model.lease import Term
from reconciler.model.policy import DEFAULT_MISFIRE
from reconciler.model.run import SkipReason
from reconciler.schedule.timeline import Planned
from reconciler.store import timelines
from reconciler.store.database import Tx
from reconciler.store.ledger import Kept, make_runs
from reconciler.store.slots import with_job
from reconciler.store.tables import runs
from reconciler.store.trigger_tables import slots, triggers


def open_ended(tx: Tx, trigger_ids: Sequence[int]) -> dict[int, int]:
    """Give the last deferred slot of each trigger that has no later run yet, by trigger."""
    later = runs.alias("later")
    came = select(later.c.id).where(later.c.trigger_id == slots.c.trigger_id, later.c.slot_us > slots.c.slot_us)
    deferred = tx.among(slots.c.trigger_id, trigger_ids), slots.c.reason == str(SkipReason.DEFERRED)
    last = select(slots.c.trigger_id, func.max(slots.c.slot_us).label("slot_us")).where(*deferred, ~came.exists())
    return {row.trigger_id: row.slot_us for row in tx.execute(last.group_by(slots.c.trigger_id))}


def take_up(tx: Tx, term: Term, alone: Mapping[int, tuple[int, int]], now_us: int) -> None:
    """Make runs of deferred slots instead of their ledger rows; `alone` gives slot and due instant by trigger."""
    if not alone:
        return
    taken = tx.rows(
        "taken", {"id": int, "slot_us": int}, [(key, slot_us) for key, (slot_us, _) in sorted(alone.items())]
    )
    mine = select(taken.c.id).where(taken.c.id == slots.c.trigger_id, taken.c.slot_us == slots.c.slot_us)
    tx.execute(delete(slots).where(mine.exists()))
    kept = []
    for trigger in tx.execute(with_job(tx.among(triggers.c.id, list(alone)))).all():
        slot_us, due_us = alone[trigger.id]
        deadline_us = timelines.rules_of(trigger.rules, DEFAULT_MISFIRE).starting_deadline_us
        kept.append(Kept(trigger, [Planned(slot_us, max(due_us, now_us))], deadline_us))
    make_runs(tx, kept, now_us=now_us, by=f"leader/{term.number}")
