"""The end of a pause: it is forgotten once its slots are settled, and caught up with if that was asked for.

Law: a slot that is caught up loses its ledger row in the transaction that makes its run (S1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import delete, select

from reconciler.model.lease import Term
from reconciler.model.run import SkipReason
from reconciler.schedule import misfire as misfires
from reconciler.schedule.misfire import Now
from reconciler.schedule.timeline import Planned
from reconciler.store import audit, pauses, timelines
from reconciler.store.database import Tx
from reconciler.store.ledger import Kept, make_runs
from reconciler.store.pauses import Pause
from reconciler.store.slots import Bounds, with_job
from reconciler.store.tables import definitions
from reconciler.store.trigger_tables import slots, triggers

_ON_TIME_AT_MOST: Final = 1000
"""Slots of one trigger that may be on time still as its pause ends; beyond them only missed ones are caught up."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A pause that was forgotten, and how many of its slots run after all."""

    job: str
    runs: int


def end_pauses(tx: Tx, term: Term, bounds: Bounds) -> list[Ended]:
    """Forget pauses that are over and settled, up to `bounds.limit`. Raises NotLeaderError when the term is over."""
    return [_end(tx, term, each, bounds) for each in pauses.over(tx, term, limit=bounds.limit)]


def _end(tx: Tx, term: Term, pause: Pause, bounds: Bounds) -> Ended:
    made = _catch_up(tx, term, pause, bounds) if pause.catch_up else 0
    pauses.forget(tx, pause.id)
    audit.record(
        tx, actor=f"leader/{term.number}", action="pause.ended", subject=f"job/{pause.job}", detail={"runs": made}
    )
    return Ended(pause.job, made)


def _catch_up(tx: Tx, term: Term, pause: Pause, bounds: Bounds) -> int:
    """Let the misfire policy of each trigger decide over the slots of a pause, as if they had been missed."""
    now_us, made = tx.now_us(), 0
    live = with_job(
        definitions.c.name == pause.job, definitions.c.deleted_us.is_(None), triggers.c.removed_us.is_(None)
    )
    for trigger in tx.execute(live).all():
        if trigger.is_suspended:
            continue
        rules = timelines.rules_of(trigger.rules, bounds.misfire)
        passed = _passed(tx, trigger, pause, most=rules.misfire.looks_past + _ON_TIME_AT_MOST)
        decided = misfires.settle(passed, Now(now_us, bounds.on_time_us), rules=rules)
        wanted = [each for each in decided if each.reason is None]
        gone = slots.c.trigger_id == trigger.id, tx.among(slots.c.slot_us, [each.slot_us for each in wanted])
        tx.execute(delete(slots).where(*gone, slots.c.reason == SkipReason.PAUSED))
        kept = Kept(trigger, wanted, rules.starting_deadline_us)
        made += len(make_runs(tx, [kept], now_us=now_us, by=f"leader/{term.number}"))
    return made


def _passed(tx: Tx, trigger: Any, pause: Pause, *, most: int) -> list[Planned]:
    """Give the newest slots that the pause held back, oldest first."""
    query = (
        select(slots.c.slot_us)
        .where(
            slots.c.trigger_id == trigger.id,
            slots.c.reason == SkipReason.PAUSED,
            slots.c.recorded_us >= pause.paused_us,
            slots.c.slot_us <= pause.until_us,  # one at its very end may have been settled before it ended
        )
        .order_by(slots.c.slot_us.desc())
        .limit(most)
    )
    return [Planned(slot_us, slot_us) for slot_us in tx.execute(query).scalars()][::-1]
