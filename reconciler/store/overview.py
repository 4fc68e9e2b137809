"""What is going on, in numbers and short lists: who waits where, what fails, what fires next. Nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ScalarSelect, Select, func, select

from reconciler.model.run import HELD, RunState
from reconciler.store import nodes as sessions
from reconciler.store import pauses
from reconciler.store.database import Tx, in_states
from reconciler.store.nodes import Node
from reconciler.store.queue_tables import ALL_QUEUES
from reconciler.store.queue_tables import queues as queue_table
from reconciler.store.tables import dead_letters, definitions, requirements, run_history, runs, sources
from reconciler.store.trigger_tables import slots, triggers

FAILURES: Final = frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.DEAD_LETTERED})
_NODES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: what waits and runs in it, since when the oldest claimable run waits, and who serves it."""

    name: str
    jobs: int
    waiting: int
    running: int
    oldest_due_us: int | None
    slots: int
    workers: Sequence[str]
    unserved: Sequence[str]
    """Handlers that jobs of this queue want and no living worker of it has."""
    max_running: int | None = None
    suspended: bool = False


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


def definition_counts(tx: Tx) -> dict[str, int]:
    """Count live definitions: ready, suspended, and those whose files say something else than what is applied."""
    query = (
        select(
            definitions.c.suspended, definitions.c.condition.is_not(None).label("differs"), func.count().label("total")
        )
        .where(definitions.c.deleted_us.is_(None))
        .group_by(definitions.c.suspended, definitions.c.condition.is_not(None))
    )
    counts = {"ready": 0, "suspended": 0, "degraded": 0}
    for row in tx.execute(query):
        state = "degraded" if row.differs else "suspended" if row.suspended else "ready"
        counts[state] += row.total
    return counts


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


def queues(tx: Tx) -> list[Queue]:
    """List every queue that is declared, or that a job, a run or a worker names, by name.

    Where all together are capped, they come first as `*`.
    """
    jobs, wanted = _declared(tx)
    waiting, running, oldest = _depths(tx)
    living = [node for node in sessions.listed(tx, limit=_NODES) if node.alive and node.state == "Active"]
    named = {queue for node in living for queue in node.queues or ()}
    said = {row.name: row for row in tx.execute(select(queue_table))}
    found = [
        _queue(name, jobs, wanted.get(name, set()), waiting, running, oldest, living, said.get(name))
        for name in sorted({*jobs, *waiting, *running, *named, *said} - {ALL_QUEUES})
    ]
    everywhere = said.get(ALL_QUEUES)
    return (
        found if everywhere is None or everywhere.max_running is None else [_all_of(found, living, everywhere), *found]
    )


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


def _declared(tx: Tx) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Count live jobs by queue, and say which handlers they want there."""
    query = (
        select(requirements.c.queue, requirements.c.handler, func.count().label("total"))
        .join(definitions, definitions.c.requirement_id == requirements.c.id)
        .where(definitions.c.deleted_us.is_(None))
        .group_by(requirements.c.queue, requirements.c.handler)
    )
    jobs: dict[str, int] = {}
    wanted: dict[str, set[str]] = {}
    for row in tx.execute(query):
        jobs[row.queue] = jobs.get(row.queue, 0) + row.total
        wanted.setdefault(row.queue, set()).add(row.handler)
    return jobs, wanted


def _depths(tx: Tx) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Count waiting and held runs by queue, and find since when the oldest claimable one waits."""
    query = (
        select(
            requirements.c.queue, runs.c.state, func.count().label("total"), func.min(runs.c.due_us).label("oldest_us")
        )
        .join(requirements, requirements.c.id == runs.c.requirement_id)
        .group_by(requirements.c.queue, runs.c.state)
    )
    waiting: dict[str, int] = {}
    running: dict[str, int] = {}
    oldest: dict[str, int] = {}
    for row in tx.execute(query):
        counts = running if row.state in HELD else waiting
        counts[row.queue] = counts.get(row.queue, 0) + row.total
        if row.state == RunState.PENDING:
            oldest[row.queue] = row.oldest_us
    return waiting, running, oldest


def _queue(  # noqa: PLR0913, PLR0917 - the facts of one queue, gathered above
    name: str,
    jobs: Mapping[str, int],
    wanted: set[str],
    waiting: Mapping[str, int],
    running: Mapping[str, int],
    oldest: Mapping[str, int],
    living: Sequence[Node],
    said: Any,
) -> Queue:
    serving = [node for node in living if node.queues is None or name in node.queues]
    offered = {handler for node in serving for handler in node.handlers}
    return Queue(
        name=name,
        jobs=jobs.get(name, 0),
        waiting=waiting.get(name, 0),
        running=running.get(name, 0),
        oldest_due_us=oldest.get(name),
        slots=sum(node.slots for node in serving),
        workers=sorted(node.name for node in serving),
        unserved=sorted(wanted - offered),
        max_running=None if said is None else said.max_running,
        suspended=said is not None and bool(said.suspended),
    )


def _all_of(found: Sequence[Queue], living: Sequence[Node], said: Any) -> Queue:
    return Queue(
        name=ALL_QUEUES,
        jobs=sum(each.jobs for each in found),
        waiting=sum(each.waiting for each in found),
        running=sum(each.running for each in found),
        oldest_due_us=min((each.oldest_due_us for each in found if each.oldest_due_us is not None), default=None),
        slots=sum(node.slots for node in living),
        workers=sorted(node.name for node in living),
        unserved=[],
        max_running=said.max_running,
        suspended=False,
    )
