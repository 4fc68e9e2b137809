"""How triggers and waiting runs follow an apply.

A changed timing starts a new activation at the apply instant: slots up to it belong to the old one, later slots to the
new one, none to both (S6). Look-ahead runs that are not yet due are withdrawn in the same transaction; runs already due
stay. A new, re-created or changed trigger never fires for a slot before its activation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, delete, insert, literal, null, select, true, update

from reconciler.model.definition import Job, Trigger, canonical
from reconciler.model.lease import Term
from reconciler.model.run import RunState, SkipReason
from reconciler.store.database import Tx, in_states
from reconciler.store.definitions import StoredTrigger, triggers_of
from reconciler.store.order import order_key_of
from reconciler.store.slots import occurrences_of
from reconciler.store.tables import definitions, runs
from reconciler.store.trigger_tables import slots, triggers

_AHEAD: Final = (RunState.SCHEDULED,)


def follow(tx: Tx, term: Term, jobs: Mapping[int, Job], now_us: int) -> None:
    """Bring the triggers and look-ahead runs of changed definitions (by id) to what is declared now."""
    stored: dict[tuple[int, str], StoredTrigger] = {
        (each.definition_id, each.name): each for each in triggers_of(tx, list(jobs))
    }
    declared = {(definition_id, each.name): each for definition_id, job in jobs.items() for each in job.triggers}
    _add(tx, {key: declared[key] for key in declared.keys() - stored.keys()}, now_us)
    begun = {key: declared[key] for key in declared.keys() & stored.keys() if _differs(declared[key], stored[key])}
    _begin_again(tx, {stored[key].id: trigger for key, trigger in begun.items()}, now_us)
    dropped = [each.id for key, each in stored.items() if key not in declared and each.removed_us is None]
    remove(tx, dropped, now_us)
    _withdraw(tx, [*(stored[key].id for key in begun), *dropped], now_us)
    _rebind(tx, list(jobs))
    _record_suspended(tx, term, list(jobs), now_us)


def remove(tx: Tx, trigger_ids: Sequence[int], now_us: int) -> None:
    """Stop triggers for good; declared again under the same name they begin a new activation."""
    if trigger_ids:
        gone = tx.among(triggers.c.id, trigger_ids)
        tx.execute(update(triggers).where(gone).values(removed_us=now_us, next_fire_us=null()))


def _differs(declared: Trigger, stored: StoredTrigger) -> bool:
    return stored.removed_us is not None or declared.timing_document != stored.timing_document


def _first_fire(timing: str, now_us: int) -> int | None:
    return occurrences_of(timing, now_us).next_after(now_us)


def _add(tx: Tx, added: Mapping[tuple[int, str], Trigger], now_us: int) -> None:
    if not added:
        return
    rows = []
    for (definition_id, name), trigger in sorted(added.items()):
        timing = canonical(trigger.timing_document)
        rows.append((definition_id, name, timing, 1, now_us, now_us, _first_fire(timing, now_us)))
    columns = {
        "definition_id": int,
        "name": str,
        "timing": str,
        "activation": int,
        "activated_us": int,
        "cursor_us": int,
        "next_fire_us": int,
    }
    given = tx.rows("given", columns, rows)
    tx.execute(insert(triggers).from_select(list(columns), select(*(given.c[name] for name in columns))))


def _begin_again(tx: Tx, begun: Mapping[int, Trigger], now_us: int) -> None:
    if not begun:
        return
    rows = []
    for trigger_id, trigger in sorted(begun.items()):
        timing = canonical(trigger.timing_document)
        rows.append((trigger_id, timing, _first_fire(timing, now_us)))
    given = tx.rows("given", {"id": int, "timing": str, "next_fire_us": int}, rows)
    tx.execute(
        update(triggers)
        .where(triggers.c.id == given.c.id)
        .values(
            timing=given.c.timing,
            activation=triggers.c.activation + 1,
            activated_us=now_us,
            cursor_us=now_us,
            next_fire_us=given.c.next_fire_us,
            removed_us=null(),
        )
    )


def _withdraw(tx: Tx, trigger_ids: Sequence[int], now_us: int) -> None:
    """Take back what was made ahead by an activation that is over, runs and ledger rows; its slots up to now stay."""
    if trigger_ids:
        ahead = tx.among(runs.c.trigger_id, trigger_ids), in_states(runs.c.state, _AHEAD), runs.c.due_us > now_us
        tx.execute(delete(runs).where(*ahead))
        # A suspension records what was made ahead; to leave that would give one slot a run and a ledger row (S1).
        tx.execute(delete(slots).where(tx.among(slots.c.trigger_id, trigger_ids), slots.c.slot_us > now_us))


def _rebind(tx: Tx, definition_ids: Sequence[int]) -> None:
    """Let runs that wait for their instant follow the new generation, its queue and its priority."""
    tx.execute(
        update(runs)
        .where(
            runs.c.definition_id == definitions.c.id,
            in_states(runs.c.state, _AHEAD),
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
    suspended = select(definitions.c.id).where(definitions.c.suspended, tx.among(definitions.c.id, definition_ids))
    ahead: list[Any] = [
        runs.c.definition_id.in_(suspended),
        in_states(runs.c.state, _AHEAD),
        runs.c.due_us > now_us,
    ]
    rows = select(
        runs.c.trigger_id,
        runs.c.slot_us,
        runs.c.definition_id,
        literal(str(SkipReason.SUSPENDED)),
        literal(now_us, BigInteger()),
        literal(f"leader/{term.number}"),
    ).where(*ahead, runs.c.trigger_id.is_not(None), true())
    columns = ["trigger_id", "slot_us", "definition_id", "reason", "recorded_us", "recorded_by"]
    tx.execute(tx.insert_new(slots, columns, rows))
    tx.execute(delete(runs).where(*ahead))
