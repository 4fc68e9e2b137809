"""What people ask: runs, live and over, in one shape. Lists are bounded; nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, Text, cast, func, null, select, union_all

from reconciler.errors import NotFoundError
from reconciler.model.run import HELD, TERMINAL, RunState
from reconciler.store.database import Tx
from reconciler.store.tables import (
    attempts,
    audit,
    definition_versions,
    definitions,
    nodes,
    requirements,
    run_history,
    runs,
)
from reconciler.store.tables import dead_letters as letters
from reconciler.store.trigger_tables import slots as ledger
from reconciler.store.trigger_tables import triggers


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as people and JSON see it."""

    id: int
    definition: str
    kind: str
    trigger: str | None
    slot_us: int
    due_us: int
    state: RunState
    reason: str | None
    attempt: int
    lost_leases: int
    fence: int
    node: str | None
    queue: str
    handler: str
    priority: int
    generation: int
    created_us: int
    created_by: str
    started_us: int | None
    finished_us: int | None
    exit_code: int | None
    error: str | None
    revision: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run is in a terminal state."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One hold on a run: who, under which fence, and how it ended."""

    attempt: int
    fence: int
    node: str | None
    outcome: str
    started_us: int | None
    finished_us: int
    exit_code: int | None
    error: str | None
    output: str


@dataclass(frozen=True, slots=True)
class SkippedSlot:
    """A slot that did not become a run, and why."""

    definition: str
    trigger: str
    slot_us: int
    reason: str
    detail: str | None
    recorded_us: int
    recorded_by: str


_MOST_AT_ONCE: Final = 1000
_SHARED: Final = (
    "definition_id",
    "generation",
    "trigger_id",
    "slot_us",
    "requirement_id",
    "priority",
    "due_us",
    "state",
    "fence",
    "attempt",
    "lost_leases",
    "node_id",
    "created_us",
    "created_by",
    "started_us",
)


def runs_listed(  # noqa: PLR0913 - what may be asked of a list, each named at the call
    tx: Tx,
    *,
    limit: int,
    job: str | None = None,
    states: Sequence[RunState] | None = None,
    after_id: int = 0,
    node_id: int | None = None,
    queue: str | None = None,
) -> list[RunRow]:
    """List runs, the newest first; `after_id` leaves out those up to an id."""
    both = _live_and_over()
    query = _shown(both).where(both.c.id > after_id)
    if job is not None:
        query = query.where(definitions.c.name == job)
    if states is not None:
        query = query.where(both.c.state.in_(sorted(states)))
    if node_id is not None:
        query = query.where(both.c.node_id == node_id)
    if queue is not None:
        query = query.where(requirements.c.queue == queue)
    return [_run(row) for row in tx.execute(query.order_by(both.c.id.desc()).limit(limit))]


def runs_at(tx: Tx, job: str, from_us: int, until_us: int) -> list[RunRow]:
    """List the runs of a job's slots between two instants, both included, the oldest slot first."""
    both = _live_and_over()
    query = _shown(both).where(definitions.c.name == job, both.c.slot_us.between(from_us, until_us))
    return [_run(row) for row in tx.execute(query.order_by(both.c.slot_us, both.c.id).limit(_MOST_AT_ONCE))]


def run_shown(tx: Tx, run_id: int) -> RunRow:
    """Give one run. Raises NotFoundError."""
    both = _live_and_over()
    row = tx.execute(_shown(both).where(both.c.id == run_id)).first()
    if row is None:
        raise NotFoundError(f"there is no run {run_id}; `reconciler runs list` shows the newest")
    return _run(row)


def finished_since(tx: Tx, since_us: int, *, limit: int) -> list[RunRow]:
    """List runs that ended at or after an instant, the oldest first."""
    both = _live_and_over()
    query = _shown(both).where(both.c.finished_us >= since_us).order_by(both.c.finished_us, both.c.id)
    return [_run(row) for row in tx.execute(query.limit(limit))]


def attempts_of(tx: Tx, run_id: int) -> list[AttemptRow]:
    """Give every hold on a run that has ended, in order."""
    query = (
        select(attempts, nodes.c.name.label("node"))
        .outerjoin(nodes, nodes.c.id == attempts.c.node_id)
        .where(attempts.c.run_id == run_id)
        .order_by(attempts.c.fence)
    )
    return [
        AttemptRow(
            attempt=row.attempt,
            fence=row.fence,
            node=row.node,
            outcome=row.outcome,
            started_us=row.started_us,
            finished_us=row.finished_us,
            exit_code=row.exit_code,
            error=row.error,
            output=row.output,
        )
        for row in tx.execute(query)
    ]


def skipped_slots(tx: Tx, *, limit: int, job: str | None = None) -> list[SkippedSlot]:
    """List slots that did not become runs, the newest first."""
    query = _skipped() if job is None else _skipped().where(definitions.c.name == job)
    return [_slot(row) for row in tx.execute(query.order_by(ledger.c.slot_us.desc()).limit(limit))]


def skipped_at(tx: Tx, job: str, from_us: int, until_us: int) -> list[SkippedSlot]:
    """List the slots of a job between two instants, both included, that did not become runs, the oldest first."""
    query = _skipped().where(definitions.c.name == job, ledger.c.slot_us.between(from_us, until_us))
    return [_slot(row) for row in tx.execute(query.order_by(ledger.c.slot_us).limit(_MOST_AT_ONCE))]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A run that was given up, and why."""

    run_id: int
    definition: str
    reason: str
    last_outcome: str
    error: str | None
    parked_us: int


def dead_letters(tx: Tx, *, limit: int, job: str | None = None) -> list[DeadLetter]:
    """List runs that were given up, the newest first."""
    query = select(letters, definitions.c.name).join(definitions, definitions.c.id == letters.c.definition_id)
    if job is not None:
        query = query.where(definitions.c.name == job)
    return [
        DeadLetter(row.run_id, row.name, row.reason, row.last_outcome, row.error, row.parked_us)
        for row in tx.execute(query.order_by(letters.c.parked_us.desc(), letters.c.run_id).limit(limit))
    ]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who did what to what, and when."""

    at_us: int
    actor: str
    action: str
    subject: str
    detail: str


def audited(tx: Tx, *, limit: int) -> list[AuditRow]:
    """List what was done, the newest first."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    return [AuditRow(row.at_us, row.actor, row.action, row.subject, row.detail) for row in tx.execute(query)]


def depth(tx: Tx) -> dict[RunState, int]:
    """Count live runs by state."""
    query = select(runs.c.state, func.count().label("total")).group_by(runs.c.state)
    return {RunState(row.state): int(row.total) for row in tx.execute(query)}


def _skipped() -> Select[Any]:
    return (
        select(ledger, definitions.c.name.label("definition"), triggers.c.name.label("trigger"))
        .join(triggers, triggers.c.id == ledger.c.trigger_id)
        .join(definitions, definitions.c.id == ledger.c.definition_id)
    )


def _slot(row: Any) -> SkippedSlot:
    return SkippedSlot(
        row.definition, row.trigger, row.slot_us, row.reason, row.detail, row.recorded_us, row.recorded_by
    )


def _live_and_over() -> Any:
    live = select(
        runs.c.id.label("id"),
        *(runs.c[name] for name in _SHARED),
        cast(null(), Text()).label("reason"),
        cast(null(), runs.c.started_us.type).label("finished_us"),
        cast(null(), run_history.c.exit_code.type).label("exit_code"),
        cast(null(), Text()).label("error"),
    )
    over = select(
        run_history.c.run_id,
        *(run_history.c[name] for name in _SHARED),
        run_history.c.reason,
        run_history.c.finished_us,
        run_history.c.exit_code,
        run_history.c.error,
    )
    return union_all(live, over).subquery("everything")


def _shown(both: Any) -> Select[Any]:
    return (
        select(
            both,
            definitions.c.name.label("definition"),
            definitions.c.kind,
            triggers.c.name.label("trigger"),
            nodes.c.name.label("node"),
            requirements.c.queue,
            requirements.c.handler,
            definition_versions.c.revision,
        )
        .select_from(both)
        .join(definitions, definitions.c.id == both.c.definition_id)
        .join(requirements, requirements.c.id == both.c.requirement_id)
        .outerjoin(
            definition_versions,
            (definition_versions.c.definition_id == both.c.definition_id)
            & (definition_versions.c.generation == both.c.generation),
        )
        .outerjoin(triggers, triggers.c.id == both.c.trigger_id)
        .outerjoin(nodes, nodes.c.id == both.c.node_id)
    )


def _run(row: Any) -> RunRow:
    state = RunState(row.state)
    return RunRow(
        id=row.id,
        definition=row.definition,
        kind=row.kind,
        trigger=row.trigger,
        slot_us=row.slot_us,
        due_us=row.due_us,
        state=state,
        reason=row.reason,
        attempt=row.attempt,
        lost_leases=row.lost_leases,
        fence=row.fence,
        node=row.node,
        queue=row.queue,
        handler=row.handler,
        priority=row.priority,
        generation=row.generation,
        created_us=row.created_us,
        created_by=row.created_by,
        started_us=row.started_us if state in HELD | TERMINAL else None,
        finished_us=row.finished_us,
        exit_code=row.exit_code,
        error=row.error,
        revision=row.revision,
    )
