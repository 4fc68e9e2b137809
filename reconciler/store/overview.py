"""What is going on, in numbers and short lists: who waits where, what fails, what fires next. Nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ScalarSelect, Select, case, func, select

from reconciler.model.run import HELD, RunState
from reconciler.store import pauses
from reconciler.store.database import Tx, in_states
from reconciler.store.tables import dead_letters, definitions, run_history, runs, sources
from reconciler.store.trigger_tables import slots, triggers

FAILURES: Final = frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.DEAD_LETTERED})


@dataclass(frozen=True, slots=True)
class Fire:
    """A slot to come."""

    definition: str
    trigger: str
    slot_us: int


@dataclass(frozen=True, slots=True)
class Last:
    """The newest ended run of a definition."""

    run_id: int
    state: RunState
    finished_us: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """What a definition did last: its newest run, its newest success, its newest slot that came."""

    last_run: Last | None
    last_success: Last | None
    previous_slot_us: int | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What of a source is applied."""

    source: str
    path: str
    host: str
    revision: str
    applied_us: int | None


def definition_counts(tx: Tx) -> dict[tuple[str, str], int]:
    """Count live definitions by kind and state: Active, Suspended, or Degraded (its file is broken)."""
    is_degraded = definitions.c.condition.like("Degraded%")
    state = case((is_degraded, "Degraded"), (definitions.c.suspended, "Suspended"), else_="Active")
    query = (
        select(definitions.c.kind, state.label("state"), func.count().label("number"))
        .where(definitions.c.deleted_us.is_(None))
        .group_by(definitions.c.kind, state)
    )
    return {(row.kind, row.state): row.number for row in tx.execute(query)}


def degraded(tx: Tx, *, limit: int) -> list[tuple[str, str]]:
    """List definitions whose file is not applied, by name, and why."""
    query = select(definitions.c.name, definitions.c.condition).where(
        definitions.c.deleted_us.is_(None), definitions.c.condition.is_not(None)
    )
    return [(row.name, row.condition) for row in tx.execute(query.order_by(definitions.c.name).limit(limit))]


def ended_counts(tx: Tx, since_us: int) -> dict[RunState, int]:
    """Count runs that ended at or after an instant, by state."""
    query = select(run_history.c.state, func.count().label("total")).where(run_history.c.finished_us >= since_us)
    return {RunState(row.state): row.total for row in tx.execute(query.group_by(run_history.c.state))}


def dead_letter_count(tx: Tx) -> int:
    """Count runs that were given up."""
    return int(tx.execute(select(func.count()).select_from(dead_letters)).scalar_one())


def failing(tx: Tx, *, limit: int) -> list[tuple[str, Last]]:
    """List live definitions whose newest ended run did not succeed, the latest failure first."""
    newest = _newest_of(run_history.c.run_id)
    query = (
        select(definitions.c.name, *_LAST)
        .select_from(definitions)
        .join(run_history, run_history.c.run_id == newest)
        .where(definitions.c.deleted_us.is_(None), in_states(run_history.c.state, FAILURES))
        .order_by(run_history.c.finished_us.desc(), definitions.c.name)
        .limit(limit)
    )
    return [(row.name, _last(row)) for row in tx.execute(query)]


def next_fires(tx: Tx, *, limit: int) -> list[Fire]:
    """List the next fire of each trigger that will fire, the earliest first; suspended and paused ones do not."""
    query = (
        select(definitions.c.name, triggers.c.name.label("trigger"), triggers.c.next_fire_us)
        .join(triggers, triggers.c.definition_id == definitions.c.id)
        .where(
            definitions.c.deleted_us.is_(None),
            ~definitions.c.suspended,
            ~triggers.c.suspended,
            ~pauses.is_paused(definitions.c.name, tx.now_us()),
            triggers.c.next_fire_us.is_not(None),
        )
        .order_by(triggers.c.next_fire_us, triggers.c.id)
        .limit(limit)
    )
    return [Fire(row.name, row.trigger, row.next_fire_us) for row in tx.execute(query)]


def records_of(tx: Tx, definition_ids: Sequence[int]) -> dict[int, Record]:
    """Say of some definitions what they did last."""
    last = _ended(tx, definition_ids, _newest_of(run_history.c.run_id))
    won = _ended(tx, definition_ids, _newest_of(run_history.c.run_id, RunState.SUCCEEDED))
    came = _newest_slots(tx, definition_ids)
    return {each: Record(last.get(each), won.get(each), came.get(each)) for each in definition_ids}


def held_by_node(tx: Tx) -> dict[int, int]:
    """Count the runs that each session holds."""
    held = select(runs.c.node_id, func.count().label("total")).where(in_states(runs.c.state, HELD))
    return {row.node_id: row.total for row in tx.execute(held.group_by(runs.c.node_id))}


def applied(tx: Tx) -> list[Applied]:
    """List the sources that were applied, by name."""
    return [
        Applied(row.name, row.path, row.host, row.revision, row.applied_us)
        for row in tx.execute(select(sources).order_by(sources.c.name))
    ]


_LAST: Final = (run_history.c.run_id, run_history.c.state, run_history.c.finished_us, run_history.c.error)


def _last(row: Any) -> Last:
    return Last(row.run_id, RunState(row.state), row.finished_us, row.error)


def _newest_of(column: Any, state: RunState | None = None) -> ScalarSelect[Any]:
    """Give a fact of the newest ended run of each definition, by the index on definition and end."""
    inner = run_history.alias("newest")
    query = select(inner.c[column.name]).where(inner.c.definition_id == definitions.c.id)
    if state is not None:
        query = query.where(inner.c.state == state)
    ordered = query.order_by(inner.c.finished_us.desc(), inner.c.run_id.desc()).limit(1)
    return ordered.correlate(definitions).scalar_subquery()


def _ended(tx: Tx, definition_ids: Sequence[int], newest: ScalarSelect[Any]) -> dict[int, Last]:
    query = (
        select(definitions.c.id, *_LAST)
        .select_from(definitions)
        .join(run_history, run_history.c.run_id == newest)
        .where(tx.among(definitions.c.id, definition_ids))
    )
    return {row.id: _last(row) for row in tx.execute(query)}


def _newest_slots(tx: Tx, definition_ids: Sequence[int]) -> dict[int, int]:
    """Give the newest slot that came: it runs, ran, or was recorded as skipped."""
    now_us = tx.now_us()
    live = _newest_slot(runs.c.definition_id, runs.c.slot_us, runs.c.trigger_id.is_not(None), runs.c.slot_us <= now_us)
    skipped = _newest_slot(slots.c.definition_id, slots.c.slot_us, slots.c.slot_us <= now_us)
    ran = _newest_slot(
        run_history.c.definition_id, run_history.c.slot_us, run_history.c.run_id == _newest_of(run_history.c.run_id)
    )
    found: dict[int, int] = {}
    for query in (live, skipped, ran):
        for row in tx.execute(query.where(tx.among(definitions.c.id, definition_ids))):
            found[row.id] = max(found.get(row.id, row.slot_us), row.slot_us)
    return found


def _newest_slot(owner: Any, slot_us: Any, *which: Any) -> Select[Any]:
    query = select(definitions.c.id, func.max(slot_us).label("slot_us")).select_from(definitions)
    return query.join(owner.table, owner == definitions.c.id).where(*which).group_by(definitions.c.id)
