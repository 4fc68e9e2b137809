"""Materialising: due slots become runs, or ledger rows that say why not.

Laws: exactly one run or ledger row per (trigger, slot) (S1); rows and the trigger's cursor move in one transaction
(S2); the cursor, not the row, is the memory, and its compare-and-set under the term decides who writes (S4, S7).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import case, literal, select, true, update

from reconciler.model.definition import timing_from
from reconciler.model.lease import Term
from reconciler.model.run import RunState, SkipReason
from reconciler.schedule.misfire import DEFAULT, Decision, Misfire
from reconciler.schedule.misfire import settle as settle_missed
from reconciler.schedule.occurrences import Occurrences, compile_timing
from reconciler.store.database import Tx
from reconciler.store.leader import guard
from reconciler.store.order import aging_of, order_key
from reconciler.store.tables import definitions, runs
from reconciler.store.trigger_tables import slots, triggers

SLOTS_PER_TRIGGER: Final = 500
"""How many slots of one trigger a transaction settles at most; the rest follows in the next one."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What one step did: runs made, slots skipped by reason.

    `more` when due triggers are left, `broken` why some could not be settled, by trigger id.
    """

    runs: int
    skipped: Mapping[str, int]
    more: bool
    broken: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class _Step:
    """What becomes of one trigger: its slots, and where its cursor and next fire go."""

    trigger: Any
    decisions: Sequence[Decision]
    cursor_us: int
    next_fire_us: int | None


@lru_cache(maxsize=8192)
def occurrences_of(timing: str, activated_us: int) -> Occurrences:
    """Compile a stored timing; the same text and activation are compiled once."""
    return compile_timing(timing_from(json.loads(timing)), activated_us=activated_us)


def settle(  # noqa: PLR0913 - the bounds of one step, each named at the call
    tx: Tx,
    term: Term,
    *,
    look_ahead_us: int,
    on_time_us: int,
    limit: int,
    misfire: Misfire = DEFAULT,
    only: Collection[int] | None = None,
    at_us: int | None = None,
) -> Settled:
    """Turn slots that are due, or will be within `look_ahead_us`, into runs or ledger rows.

    Slots that are more than `on_time_us` late go by `misfire`.

    `limit` bounds the triggers of this step. An apply settles what it is about to change: `only` names those
    definitions, and `at_us` is its instant, so that no slot falls between the old activation and the new.
    Raises NotLeaderError when the term is over.
    """
    guard(tx, term)
    now_us = tx.now_us() if at_us is None else at_us
    due = _due(tx, now_us, look_ahead_us=look_ahead_us, limit=limit, only=only)
    steps, broken = [], {}
    for each in due:
        try:
            steps.append(_step(each, now_us, look_ahead_us=look_ahead_us, on_time_us=on_time_us, misfire=misfire))
        except Exception as fault:  # noqa: BLE001 - one malformed row must not stop the other triggers (X2)
            broken[each.id] = f"{type(fault).__name__}: {fault}"
    won = _move_cursors(tx, steps)
    mine = [step for step in steps if step.trigger.id in won]
    made = _make_runs(tx, term, mine, now_us)
    skipped = _record_skips(tx, term, mine, now_us)
    more = len(due) - len(broken) == limit or any(_is_due_still(step, now_us) for step in mine)
    return Settled(made, skipped, more, broken)


def next_fire_us(tx: Tx) -> int | None:
    """Give the earliest next fire of all triggers, so that the leader knows how long it may sleep."""
    earliest = select(triggers.c.next_fire_us).where(triggers.c.next_fire_us.is_not(None))
    found = tx.execute(earliest.order_by(triggers.c.next_fire_us).limit(1)).scalar_one_or_none()
    return None if found is None else int(found)


def _due(tx: Tx, now_us: int, *, look_ahead_us: int, limit: int, only: Collection[int] | None) -> Sequence[Any]:
    """Find due triggers. A suspended definition gets no look-ahead: its slots are recorded as they pass."""
    until = case((definitions.c.suspended, now_us), else_=now_us + look_ahead_us)
    query = (
        select(
            triggers,
            definitions.c.generation,
            definitions.c.suspended.label("is_suspended"),
            definitions.c.requirement_id,
            definitions.c.priority,
            aging_of(definitions.c.requirement_id).label("aging_us"),
        )
        .join(definitions, definitions.c.id == triggers.c.definition_id)
        .where(triggers.c.next_fire_us <= now_us + look_ahead_us, triggers.c.next_fire_us <= until)
        .order_by(triggers.c.next_fire_us, triggers.c.id)
        .limit(limit)
    )
    if only is not None:
        query = query.where(tx.among(triggers.c.definition_id, only))
    return tx.execute(query).all()


def _step(trigger: Any, now_us: int, *, look_ahead_us: int, on_time_us: int, misfire: Misfire) -> _Step:
    occurrences = occurrences_of(trigger.timing, trigger.activated_us)
    until_us = now_us if trigger.is_suspended else now_us + look_ahead_us
    found = occurrences.between(trigger.cursor_us, until_us, limit=SLOTS_PER_TRIGGER + misfire.looks_past)
    taken, rest = found[:SLOTS_PER_TRIGGER], found[SLOTS_PER_TRIGGER:]
    if trigger.is_suspended:
        decisions = [Decision(slot_us, run=False, reason=SkipReason.SUSPENDED) for slot_us in taken]
    else:
        missed_follow = sum(now_us - slot_us > on_time_us for slot_us in rest)
        decisions = settle_missed(
            taken, now_us=now_us, on_time_us=on_time_us, misfire=misfire, more_follow=missed_follow
        )
    cursor_us = taken[-1] if taken else max(trigger.cursor_us, until_us)
    return _Step(trigger, decisions, cursor_us, occurrences.next_after(cursor_us))


def _is_due_still(step: _Step, now_us: int) -> bool:
    return step.next_fire_us is not None and step.next_fire_us <= now_us


def _move_cursors(tx: Tx, steps: Sequence[_Step]) -> set[int]:
    """Move each cursor if it still stands where we read it; only the winners' rows are written."""
    if not steps:
        return set()
    moved = tx.rows(
        "moved",
        {
            "id": int,
            "activation": int,
            "old_us": int,
            "cursor_us": int,
            "next_fire_us": int,
        },
        sorted(
            (step.trigger.id, step.trigger.activation, step.trigger.cursor_us, step.cursor_us, step.next_fire_us)
            for step in steps
        ),
    )
    won = tx.execute(
        update(triggers)
        .where(
            triggers.c.id == moved.c.id,
            triggers.c.activation == moved.c.activation,
            triggers.c.cursor_us == moved.c.old_us,
            triggers.c.removed_us.is_(None),
        )
        .values(cursor_us=moved.c.cursor_us, next_fire_us=moved.c.next_fire_us)
        .returning(triggers.c.id)
    )
    return set(won.scalars())


def _make_runs(tx: Tx, term: Term, steps: Sequence[_Step], now_us: int) -> int:
    made = [(step.trigger, each.slot_us) for step in steps for each in step.decisions if each.run]
    if not made:
        return 0
    columns = {
        "definition_id": int,
        "generation": int,
        "trigger_id": int,
        "slot_us": int,
        "requirement_id": int,
        "priority": int,
        "order_key": int,
        "due_us": int,
        "state": str,
    }
    rows = [
        (
            trigger.definition_id,
            trigger.generation,
            trigger.id,
            slot_us,
            trigger.requirement_id,
            trigger.priority,
            order_key(slot_us, trigger.priority, trigger.aging_us),
            slot_us,
            RunState.SCHEDULED if slot_us > now_us else RunState.PENDING,
        )
        for trigger, slot_us in made
    ]
    given = tx.rows("given", columns, rows)
    values = select(*(given.c[name] for name in columns), literal(now_us), literal(f"leader/{term.number}"))
    tx.execute(tx.insert_new(runs, [*columns, "created_us", "created_by"], values.where(true())))
    return len(rows)


def _record_skips(tx: Tx, term: Term, steps: Sequence[_Step], now_us: int) -> dict[str, int]:
    """Write why slots did not become runs; give how many for each reason."""
    rows = [
        (step.trigger.id, each.slot_us, step.trigger.definition_id, each.reason)
        for step in steps
        for each in step.decisions
        if not each.run
    ]
    if not rows:
        return {}
    columns = {"trigger_id": int, "slot_us": int, "definition_id": int, "reason": str}
    given = tx.rows("given", columns, rows)
    values = select(*(given.c[name] for name in columns), literal(now_us), literal(f"leader/{term.number}"))
    tx.execute(tx.insert_new(slots, [*columns, "recorded_us", "recorded_by"], values.where(true())))
    return dict(Counter(str(reason) for *_, reason in rows))
