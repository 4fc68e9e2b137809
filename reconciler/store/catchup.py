"""The end of a pause: slots of it that are still to come run, those that passed where catching up was asked for.

Laws: a pause ends once its slots are settled and the job is paused no more. A slot that runs after all loses its ledger
row in the transaction that makes its run (S1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from reconciler.model.lease import Term
from reconciler.model.run import SkipReason
from reconciler.schedule import misfire as misfires
from reconciler.schedule.misfire import Now
from reconciler.store import audit, holds, pauses, timelines
from reconciler.store.database import Tx
from reconciler.store.holds import Recorded
from reconciler.store.ledger import Kept
from reconciler.store.pauses import Pause
from reconciler.store.slots import Bounds, with_job
from reconciler.store.tables import definitions
from reconciler.store.trigger_tables import triggers


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that is paused no more, and how many slots of its pauses run after all."""

    job: str
    runs: int


@dataclass(frozen=True, slots=True)
class _Over:
    """The pauses of a job that are over, the oldest first, and when the last of them ended."""

    pauses: Sequence[Pause]
    ended_us: int

    def lets_run(self, slot: Recorded) -> bool:
        """Whether a slot runs after all: it is still to come, or the pause that held it is to be caught up with."""
        if self.is_to_come(slot):
            return True
        return next((each.catch_up for each in self.pauses if _held_back(each, slot)), False)

    def is_to_come(self, slot: Recorded) -> bool:
        """Whether a slot is due after the end only."""
        return slot.planned.due_us >= self.ended_us


def _held_back(pause: Pause, slot: Recorded) -> bool:
    """Whether a slot was recorded by this pause; one at its very end may have been settled before it ended."""
    if slot.recorded_us < pause.paused_us:
        return False
    at_end = pause.until_us == slot.planned.slot_us
    return at_end or pause.holds(slot.planned.slot_us, slot.recorded_us)


def end_pauses(tx: Tx, term: Term, bounds: Bounds) -> list[Ended]:
    """Forget pauses that are over and settled, of up to `bounds.limit` jobs. Raises NotLeaderError."""
    over = pauses.over(tx, term, limit=bounds.limit)
    if not over:
        return []
    jobs = select(definitions.c.id).where(tx.among(definitions.c.name, over))
    holds.lock(tx, triggers.c.definition_id.in_(jobs), triggers.c.removed_us.is_(None))
    still = pauses.over(tx, term, limit=bounds.limit)  # somebody may have paused one again until the lock was ours
    return [_end(tx, term, job, ended, bounds=bounds) for job, ended in still.items() if job in over]


def _end(tx: Tx, term: Term, job: str, ended: Sequence[Pause], *, bounds: Bounds) -> Ended:
    over = _Over(ended, max(each.until_us or 0 for each in ended))
    made = _run_after_all(tx, term, job, over, bounds=bounds)
    pauses.forget(tx, [each.id for each in ended])
    audit.record(tx, actor=f"leader/{term.number}", action="pause.ended", subject=f"job/{job}", detail={"runs": made})
    return Ended(job, made)


def _run_after_all(tx: Tx, term: Term, job: str, over: _Over, *, bounds: Bounds) -> int:
    """Let the misfire policy of each trigger decide over what may run, as if it had been missed."""
    now_us, by = tx.now_us(), f"leader/{term.number}"
    live = with_job(definitions.c.name == job, definitions.c.deleted_us.is_(None), triggers.c.removed_us.is_(None))
    found = tx.execute(live).all()
    lines, kept = holds.lines(tx, found), []
    for trigger in (each for each in found if each.id in lines):
        rules = timelines.rules_of(trigger.rules, bounds.misfire)
        known = holds.recorded(
            tx,
            trigger,
            lines[trigger.id],
            SkipReason.PAUSED,
            since_us=min(each.paused_us for each in over.pauses),
            most=rules.misfire.looks_past + holds.LOOKS_BACK,
        )
        if trigger.is_suspended:
            to_come = [each.planned for each in known if over.is_to_come(each)]
            holds.hand_over(tx, {(trigger.id, each.slot_us): holds.SUSPENDED for each in to_come}, now_us=now_us, by=by)
            continue
        passed = [each.planned for each in known if over.lets_run(each)]
        decided = misfires.settle(passed, Now(now_us, bounds.on_time_us), rules=rules)
        wanted = [each for each in decided if each.reason is None]
        kept.append(Kept(trigger, wanted, rules.starting_deadline_us))
    return holds.run_after_all(tx, kept, now_us=now_us, by=by)
