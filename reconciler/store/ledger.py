"""The two ends of a slot: a run, or a row of the ledger that says why there is none; never both (S1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Text, delete, literal, select, true

from reconciler.model.run import RunState, SkipReason
from reconciler.schedule.timeline import Planned
from reconciler.store.database import Tx, in_states
from reconciler.store.order import order_key
from reconciler.store.tables import run_history, runs
from reconciler.store.trigger_tables import slots

AHEAD: Final = (RunState.SCHEDULED,)
"""The state of runs that were made before they are due."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Slots of a trigger as they were decided; the trigger's row holds what its runs get of their job."""

    trigger: Any
    decisions: Sequence[Planned]
    deadline_us: int | None


def make_runs(tx: Tx, kept: Sequence[Kept], *, now_us: int, by: str) -> list[int]:
    """Make the runs of what was decided; give the instants at which they are due."""
    made = [(step, each) for step in kept for each in step.decisions if each.reason is None]
    if not made:
        return []
    columns = {
        "definition_id": int,
        "generation": int,
        "trigger_id": int,
        "slot_us": int,
        "requirement_id": int,
        "priority": int,
        "order_key": int,
        "due_us": int,
        "expires_us": int,
        "state": str,
    }
    rows = [
        (
            step.trigger.definition_id,
            step.trigger.generation,
            step.trigger.id,
            each.slot_us,
            step.trigger.requirement_id,
            step.trigger.priority,
            order_key(each.due_us, step.trigger.priority, step.trigger.aging_us),
            each.due_us,
            None if step.deadline_us is None else each.due_us + step.deadline_us,
            RunState.SCHEDULED if each.due_us > now_us else RunState.PENDING,
        )
        for step, each in made
    ]
    given = tx.rows("given", columns, rows)
    values = select(*(given.c[name] for name in columns), literal(now_us), literal(by))
    tx.execute(tx.insert_new(runs, [*columns, "created_us", "created_by"], values.where(true())))
    return [each.due_us for _, each in made]


def record_skips(tx: Tx, kept: Sequence[Kept], *, now_us: int, by: str) -> dict[str, int]:
    """Write why slots did not become runs; give how many for each reason."""
    rows = [
        (step.trigger.id, each.slot_us, step.trigger.definition_id, each.reason, each.detail)
        for step in kept
        for each in step.decisions
        if each.reason is not None
    ]
    if not rows:
        return {}
    columns = {"trigger_id": int, "slot_us": int, "definition_id": int, "reason": str, "detail": str}
    given = tx.rows("given", columns, rows)
    values = select(*(given.c[name] for name in columns), literal(now_us), literal(by))
    tx.execute(tx.insert_new(slots, [*columns, "recorded_us", "recorded_by"], values.where(true())))
    return dict(Counter(str(reason) for *_, reason, _ in rows))


def lived(tx: Tx, trigger_ids: Sequence[int], now_us: int) -> dict[int, int]:
    """Give the last slot of each trigger that is later than now and not ahead any more, where there is one.

    There is none unless the clock stepped back: its run was promoted, or is over, by a clock that had been there.
    """
    begun = select(runs.c.trigger_id, runs.c.slot_us).where(
        tx.among(runs.c.trigger_id, trigger_ids), runs.c.slot_us > now_us, ~in_states(runs.c.state, AHEAD)
    )
    over = select(run_history.c.trigger_id, run_history.c.slot_us).where(
        tx.among(run_history.c.trigger_id, trigger_ids),
        run_history.c.slot_us > now_us,
        run_history.c.finished_us > now_us,
    )
    found: dict[int, int] = {}
    for query in (begun, over):
        for row in tx.execute(query):
            found[row.trigger_id] = max(row.slot_us, found.get(row.trigger_id, 0))
    return found


def take_back(
    tx: Tx, reason: SkipReason, detail: str | None, which: ColumnElement[bool], *, now_us: int, by: str
) -> int:
    """Turn runs that were made ahead into ledger rows; give how many that were."""
    ahead: list[Any] = [
        which,
        runs.c.trigger_id.is_not(None),
        in_states(runs.c.state, AHEAD),
        runs.c.due_us > now_us,
    ]
    rows = select(
        runs.c.trigger_id,
        runs.c.slot_us,
        runs.c.definition_id,
        literal(str(reason)),
        literal(detail, Text()),
        literal(now_us, BigInteger()),
        literal(by),
    ).where(*ahead, true())
    columns = ["trigger_id", "slot_us", "definition_id", "reason", "detail", "recorded_us", "recorded_by"]
    tx.execute(tx.insert_new(slots, columns, rows))
    return tx.execute(delete(runs).where(*ahead)).rowcount
