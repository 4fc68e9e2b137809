"""How triggers and waiting runs follow an apply.

A changed timing starts a new activation at the apply instant: slots up to it belong to the old one, later slots to the
new one, none to both (S6). Look-ahead runs of later slots are withdrawn in the same transaction; runs of slots that
have passed stay, also where jitter or a calendar lets them wait. A new, re-created or changed trigger never fires for a
slot before its activation; nor does an activation begin before the clock that its trigger was last settled by, or a
slot whose run has begun, so that a step back of the clock brings no slot back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, null, or_, select, update

from reconciler.model.definition import Job, Trigger, canonical
from reconciler.model.lease import Term
from reconciler.model.run import RunState, SkipReason
from reconciler.store import deferred, timelines
from reconciler.store.database import Tx, in_states
from reconciler.store.definitions import StoredTrigger, triggers_of
from reconciler.store.history import Ending, end
from reconciler.store.ledger import AHEAD, lived, take_back
from reconciler.store.order import order_key_of
from reconciler.store.tables import definitions, runs
from reconciler.store.trigger_tables import slots, triggers


@dataclass(frozen=True, slots=True)
class _Declared:
    """A trigger as declared, with what it takes to place it in the store."""

    definition_id: int
    job: str
    trigger: Trigger

    @property
    def timing(self) -> str:
        return canonical(self.trigger.timing_document)

    @property
    def rules(self) -> str:
        return canonical(self.trigger.rules_document)


def follow(tx: Tx, term: Term, jobs: Mapping[int, Job], now_us: int) -> None:
    """Bring the triggers and look-ahead runs of changed definitions (by id) to what is declared now."""
    stored: dict[tuple[int, str], StoredTrigger] = {
        (each.definition_id, each.name): each for each in triggers_of(tx, list(jobs))
    }
    declared = {
        (definition_id, each.name): _Declared(definition_id, job.name, each)
        for definition_id, job in jobs.items()
        for each in job.triggers
    }
    calendars = timelines.calendars_of(tx, {each.timing for each in declared.values()})
    _add(tx, [declared[key] for key in sorted(declared.keys() - stored.keys())], now_us, calendars)
    kept = declared.keys() & stored.keys()
    begun = {key for key in kept if _differs(declared[key], stored[key])}
    again = [(stored[key], declared[key]) for key in sorted(begun)]
    _begin_again(tx, again, now_us, calendars)
    _take_up_deferred(tx, term, again, now_us)
    _change_rules(tx, [(stored[key], declared[key]) for key in sorted(kept - begun)])
    _drop(tx, [each.id for key, each in stored.items() if key not in declared and each.removed_us is None], now_us)
    _rebind(tx, list(jobs))
    _record_suspended(tx, term, list(jobs), now_us)


def remove(tx: Tx, trigger_ids: Sequence[int], now_us: int) -> None:
    """Stop triggers for good; declared again under the same name they begin a new activation."""
    if trigger_ids:
        gone = tx.among(triggers.c.id, trigger_ids)
        tx.execute(update(triggers).where(gone).values(removed_us=now_us, next_fire_us=null()))


def _differs(declared: _Declared, stored: StoredTrigger) -> bool:
    return stored.removed_us is not None or declared.trigger.timing_document != stored.timing_document


def _first_fire(declared: _Declared, at_us: int, calendars: timelines.Resolved) -> int | None:
    name = declared.job, declared.trigger.name
    return timelines.timeline_of(declared.timing, at_us, name, calendars).next_after(at_us)


def _add(tx: Tx, added: Sequence[_Declared], now_us: int, calendars: timelines.Resolved) -> None:
    if not added:
        return
    rows = [
        (
            each.definition_id,
            each.trigger.name,
            each.timing,
            each.rules,
            each.trigger.suspend,
            1,
            now_us,
            now_us,
            now_us,
            _first_fire(each, now_us, calendars),
        )
        for each in added
    ]
    columns = {
        "definition_id": int,
        "name": str,
        "timing": str,
        "rules": str,
        "suspended": bool,
        "activation": int,
        "activated_us": int,
        "cursor_us": int,
        "settled_us": int,
        "next_fire_us": int,
    }
    given = tx.rows("given", columns, rows)
    tx.execute(insert(triggers).from_select(list(columns), select(*(given.c[name] for name in columns))))


def _begin_again(
    tx: Tx, begun: Sequence[tuple[StoredTrigger, _Declared]], now_us: int, calendars: timelines.Resolved
) -> None:
    if not begun:
        return
    rows = []
    before_us = lived(tx, [stored.id for stored, _ in begun], now_us)
    for stored, declared in begun:
        at_us = max(now_us, stored.settled_us, before_us.get(stored.id, 0))
        first_us = _first_fire(declared, at_us, calendars)
        rows.append((stored.id, declared.timing, declared.rules, declared.trigger.suspend, at_us, first_us))
    columns = {"id": int, "timing": str, "rules": str, "suspended": bool, "at_us": int, "next_fire_us": int}
    given = tx.rows("given", columns, rows)
    tx.execute(
        update(triggers)
        .where(triggers.c.id == given.c.id)
        .values(
            timing=given.c.timing,
            rules=given.c.rules,
            suspended=given.c.suspended,
            activation=triggers.c.activation + 1,
            activated_us=given.c.at_us,
            cursor_us=given.c.at_us,
            next_fire_us=given.c.next_fire_us,
            removed_us=null(),
        )
    )
    withdraw(tx, [stored.id for stored, _ in begun])


def _take_up_deferred(tx: Tx, term: Term, begun: Sequence[tuple[StoredTrigger, _Declared]], now_us: int) -> None:
    """Let deferred slots of the old activation run when they were to: the later slot that they waited for is gone."""
    old = {
        stored.id: (stored, declared)
        for stored, declared in begun
        if '"calendars"' in stored.timing and stored.removed_us is None
    }
    if not old:
        return
    calendars = timelines.calendars_of(tx, [each for was, new in old.values() for each in (was.timing, new.timing)])
    alone = {}
    for trigger_id, slot_us in deferred.open_ended(tx, list(old), now_us).items():
        stored, declared = old[trigger_id]
        is_known = timelines.calendar_names(stored.timing) <= calendars.keys()
        timing = stored.timing if is_known else declared.timing  # a calendar that is gone may be one that is renamed
        line = timelines.timeline_of(timing, stored.activated_us, (declared.job, stored.name), calendars)
        due_us = line.opens_at(slot_us)
        if due_us is not None:
            alone[trigger_id] = slot_us, due_us
    deferred.take_up(tx, term, alone, now_us)


def withdraw(tx: Tx, trigger_ids: Sequence[int]) -> None:
    """Take back what was made ahead by activations that are over, runs and ledger rows; earlier slots stay."""
    mine = tx.among(triggers.c.id, trigger_ids)
    later = select(triggers.c.id).where(mine, triggers.c.id == runs.c.trigger_id, runs.c.slot_us > triggers.c.cursor_us)
    tx.execute(delete(runs).where(in_states(runs.c.state, AHEAD), later.exists()))
    # A suspension records what was made ahead; to leave that would give one slot a run and a ledger row (S1).
    told = select(triggers.c.id).where(
        mine, triggers.c.id == slots.c.trigger_id, slots.c.slot_us > triggers.c.cursor_us
    )
    tx.execute(delete(slots).where(told.exists()))


def _change_rules(tx: Tx, kept: Sequence[tuple[StoredTrigger, _Declared]]) -> None:
    """Note rules and suspensions that changed; what is being settled by the old ones at this moment writes nothing."""
    rows = [
        (stored.id, declared.rules, declared.trigger.suspend)
        for stored, declared in kept
        if (stored.rules, stored.suspended) != (declared.rules, declared.trigger.suspend)
    ]
    if rows:
        given = tx.rows("given", {"id": int, "rules": str, "suspended": bool}, rows)
        tx.execute(
            update(triggers)
            .where(triggers.c.id == given.c.id)
            .values(rules=given.c.rules, suspended=given.c.suspended, revision=triggers.c.revision + 1)
        )


def _drop(tx: Tx, trigger_ids: Sequence[int], now_us: int) -> None:
    """Stop triggers that are declared no more: later slots are taken back, those that passed and wait are ended."""
    if not trigger_ids:
        return
    remove(tx, trigger_ids, now_us)
    ahead = tx.among(runs.c.trigger_id, trigger_ids), in_states(runs.c.state, AHEAD)
    tx.execute(delete(runs).where(*ahead, runs.c.slot_us > now_us))
    tx.execute(delete(slots).where(tx.among(slots.c.trigger_id, trigger_ids), slots.c.slot_us > now_us))
    waiting = tx.execute(select(runs.c.id).where(*ahead).order_by(runs.c.id).with_for_update()).scalars()
    end(tx, [Ending(run_id, RunState.CANCELLED, reason=str(SkipReason.DEFINITION_REMOVED)) for run_id in waiting])


def _rebind(tx: Tx, definition_ids: Sequence[int]) -> None:
    """Let runs that wait for their instant follow the new generation, its queue and its priority."""
    tx.execute(
        update(runs)
        .where(
            runs.c.definition_id == definitions.c.id,
            in_states(runs.c.state, AHEAD),
            tx.among(definitions.c.id, definition_ids),
        )
        .values(
            generation=definitions.c.generation,
            requirement_id=definitions.c.requirement_id,
            priority=definitions.c.priority,
            order_key=order_key_of(runs.c.due_us, definitions.c.priority, definitions.c.requirement_id),
        )
    )


def _record_suspended(tx: Tx, term: Term, definition_ids: Sequence[int], now_us: int) -> None:
    """Turn look-ahead runs of definitions that are suspended now into ledger rows: no slot passes in silence."""
    suspended = (
        select(triggers.c.id)
        .join(definitions, definitions.c.id == triggers.c.definition_id)
        .where(or_(definitions.c.suspended, triggers.c.suspended), tx.among(definitions.c.id, definition_ids))
    )
    take_back(
        tx, SkipReason.SUSPENDED, None, runs.c.trigger_id.in_(suspended), now_us=now_us, by=f"leader/{term.number}"
    )
