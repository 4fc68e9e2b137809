"""Runs outside a worker's hands: made by hand, promoted when due, reaped when their node is gone, cancelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, Select, bindparam, func, insert, literal, or_, select, true, update
from sqlalchemy.sql.dml import ReturningUpdate

from reconciler.errors import KeyTakenError, NotFoundError, RefusedError
from reconciler.model.definition import DEFAULT_MAX_LOST_LEASES, DEFAULT_RETRY, Json, canonical
from reconciler.model.lease import Term
from reconciler.model.policy import Ended, after_attempt
from reconciler.model.run import CANCEL_WANTED, HELD, WAITING, AttemptOutcome, RunState, SkipReason
from reconciler.store import audit, places
from reconciler.store.database import Tx, in_states
from reconciler.store.definitions import find_version
from reconciler.store.history import Ending, Hold, end, put_back, record_holds
from reconciler.store.leader import guard
from reconciler.store.nodes import EndedBy
from reconciler.store.order import aging_of, order_key
from reconciler.store.tables import definitions, nodes, run_bodies, run_history, runs

SLEEPING: Final = (RunState.SCHEDULED, RunState.RETRYING)
_LOST: Final[Mapping[EndedBy | None, str]] = {
    EndedBy.LEASE: "the node's lease ran out",
    EndedBy.GUARD: "its worker was gone; the guard ended the job",
    EndedBy.WORKER: "its worker began a new session",
    None: "the node's session is missing",
}
"""What became of a run's node, by what ended its session."""


@dataclass(frozen=True, slots=True)
class Reaped:
    """What a reaping did: runs claimable again, parked since they lost too many leases, or cancelled as was asked."""

    put_back: Sequence[int]
    parked: Sequence[int]
    cancelled: Sequence[int]
    counted: int
    """How many runs count for their caps from now on: they were claimed while these began."""


@dataclass(frozen=True, slots=True)
class Awoken:
    """How many runs became claimable: those whose slot is due, and those whose backoff is over."""

    due: int
    retried: int


def create(
    tx: Tx,
    job: str,
    *,
    actor: str,
    slot_us: int | None = None,
    parameters: Mapping[str, Json] | None = None,
    idempotency_key: str | None = None,
) -> tuple[int, bool]:
    """Make a run by hand, claimable at once; give its id and whether it is new.

    The same idempotency key gives the same run for ever (R6). Raises NotFoundError for an unknown job, RefusedError for
    a key that stands for another request.
    """
    if idempotency_key is not None and (known := _of_key(tx, idempotency_key)) is not None:
        _check_same(known, idempotency_key, job, parameters=parameters, slot_us=slot_us)
        return int(known.run_id), False
    found = tx.execute(
        select(definitions, aging_of(definitions.c.requirement_id).label("aging_us")).where(
            definitions.c.kind == "Job", definitions.c.name == job, definitions.c.deleted_us.is_(None)
        )
    ).first()
    if found is None:
        raise NotFoundError(f"there is no job {job!r}; `reconciler get jobs` lists them")
    now_us = tx.now_us()
    declared = find_version(tx, found.id, found.generation)
    deadline_us = None if declared is None else declared.starting_deadline_us
    has_body = bool(parameters) or idempotency_key is not None
    run_id = tx.execute(
        insert(runs)
        .values(
            definition_id=found.id,
            generation=found.generation,
            slot_us=now_us if slot_us is None else slot_us,
            requirement_id=found.requirement_id,
            priority=found.priority,
            order_key=order_key(now_us, found.priority, found.aging_us),
            due_us=now_us,
            expires_us=None if deadline_us is None else now_us + deadline_us,
            state=RunState.PENDING,
            has_body=has_body,
            created_us=now_us,
            created_by=actor,
        )
        .returning(runs.c.id)
    ).scalar_one()
    if has_body and not _keep_body(tx, run_id, parameters, idempotency_key):
        raise KeyTakenError(f"another request took the idempotency key {idempotency_key!r} a moment ago; ask again")
    audit.record(tx, actor=actor, action="run.created", subject=f"run/{run_id}", detail={"job": job})
    return int(run_id), True


def expire(tx: Tx, term: Term, *, limit: int) -> list[int]:
    """End runs that nobody started by their starting deadline, with that reason; give their ids."""
    guard(tx, term)
    late = (
        select(runs.c.id)
        .where(runs.c.expires_us.is_not(None), in_states(runs.c.state, WAITING), runs.c.expires_us <= tx.now)
        .order_by(runs.c.expires_us, runs.c.id)
        .limit(limit)
    )
    ids = list(tx.execute(tx.for_change(late)).scalars())
    end(tx, [Ending(run_id, RunState.SKIPPED, reason=str(SkipReason.DEADLINE_EXPIRED)) for run_id in ids])
    return ids


def promote(tx: Tx, term: Term, *, limit: int) -> Awoken:
    """Make waiting runs claimable whose instant has come, never early (S3)."""
    guard(tx, term)
    attempts = tx.run(_promotion, most=limit).scalars().all()
    retried = sum(attempt > 0 for attempt in attempts)
    return Awoken(len(attempts) - retried, retried)


def is_anything_lost(tx: Tx) -> bool:
    """Whether a session is over, a run is held by one that is, or a run has expired: one look, before any work."""
    return bool(tx.run(_anything_lost).scalar_one())


def reap(tx: Tx, term: Term, *, limit: int) -> Reaped:
    """Take runs from sessions that are dead or missing; the fence stays, and the next claim raises it (I1, R3)."""
    guard(tx, term)
    # By id alone PostgreSQL walks over the whole table to find a few.
    orphaned = _orphaned().order_by(runs.c.node_id, runs.c.id).limit(limit)
    lost = tx.execute(tx.for_change(orphaned, of=runs)).all()
    record_holds(tx, [Hold(row.id, AttemptOutcome.LOST_LEASE, error=_LOST[row.ended_by]) for row in lost])
    went: dict[RunState, list[Any]] = {state: [] for state in RunState}
    for row in lost:
        went[_after_lost_lease(tx, row)].append(row)
    last = AttemptOutcome.LOST_LEASE
    parked = [
        Ending(row.id, RunState.DEAD_LETTERED, reason="TooManyLostLeases", error=_LOST[row.ended_by], last=last)
        for row in went[RunState.DEAD_LETTERED]
    ]
    cancelled = [Ending(row.id, RunState.CANCELLED, error=CANCEL_WANTED) for row in went[RunState.CANCELLED]]
    end(tx, parked + cancelled)
    back = [row.id for row in went[RunState.PENDING]]
    put_back(tx, back, lost_lease=True)
    return Reaped(back, [each.run_id for each in parked], [each.run_id for each in cancelled], counted=places.adopt(tx))


def _after_lost_lease(tx: Tx, run: Any) -> RunState:
    job = find_version(tx, run.definition_id, run.generation)
    ended = Ended(
        AttemptOutcome.LOST_LEASE,
        failures=0,
        lost_leases=run.lost_leases + 1,
        cancel_requested=run.cancel_requested,
    )
    most = DEFAULT_MAX_LOST_LEASES if job is None else job.max_lost_leases
    return after_attempt(ended, DEFAULT_RETRY if job is None else job.retry, max_lost_leases=most)


def cancel(tx: Tx, run_id: int, *, actor: str) -> RunState | None:
    """Cancel a run: at once while it waits, by asking its node while it runs; None when it is already over (R9).

    Gives Cancelled or Running. Raises NotFoundError for an unknown id.
    """
    row = tx.execute(select(runs.c.state).where(runs.c.id == run_id).with_for_update()).first()
    if row is None:
        if tx.execute(select(run_history.c.run_id).where(run_history.c.run_id == run_id)).first() is None:
            raise NotFoundError(f"there is no run {run_id}; `reconciler runs list` shows the newest")
        return None
    audit.record(tx, actor=actor, action="run.cancelled", subject=f"run/{run_id}", detail={})
    if row.state in HELD:
        tx.execute(update(runs).where(runs.c.id == run_id).values(cancel_requested=True))
        return RunState.RUNNING
    end(tx, [Ending(run_id, RunState.CANCELLED, reason=f"cancelled by {actor}")])
    return RunState.CANCELLED


def _of_key(tx: Tx, key: str) -> Any:
    """Find the run that a key stands for, live or over, and what was asked for."""
    of_run = func.coalesce(runs.c.definition_id, run_history.c.definition_id)
    query = (
        select(
            run_bodies.c.run_id,
            run_bodies.c.parameters,
            definitions.c.name,
            func.coalesce(runs.c.slot_us, run_history.c.slot_us).label("slot_us"),
        )
        .select_from(run_bodies)
        .outerjoin(runs, runs.c.id == run_bodies.c.run_id)
        .outerjoin(run_history, run_history.c.run_id == run_bodies.c.run_id)
        .outerjoin(definitions, definitions.c.id == of_run)
        .where(run_bodies.c.idempotency_key == key)
    )
    return tx.execute(query).first()


def _check_same(known: Any, key: str, job: str, *, parameters: Mapping[str, Json] | None, slot_us: int | None) -> None:
    """Refuse a key that was used for something else: its answer would be about a run that nobody asked for."""
    asked = canonical(parameters) if parameters else None
    differs = [
        what
        for what, is_other in (
            ("is of another job", known.name != job),
            ("has other parameters", known.parameters != asked),
            ("has another slot", slot_us is not None and known.slot_us != slot_us),
        )
        if is_other
    ]
    if differs:
        raise RefusedError(
            f"the idempotency key {key!r} stands for run {known.run_id} of {known.name!r}, which "
            f"{' and '.join(differs)}: use another key for another request"
        )


def _keep_body(tx: Tx, run_id: int, parameters: Mapping[str, Json] | None, key: str | None) -> bool:
    body = select(
        literal(run_id, BigInteger()), literal(canonical(parameters) if parameters else None), literal(key)
    ).where(true())
    kept = tx.insert_new(run_bodies, ["run_id", "parameters", "idempotency_key"], body)
    return tx.execute(kept.returning(run_bodies.c.run_id)).first() is not None


def _promotion(tx: Tx) -> ReturningUpdate[Any]:
    due = tx.for_change(
        select(runs.c.id)
        .where(in_states(runs.c.state, SLEEPING), runs.c.due_us <= tx.now)
        .order_by(runs.c.due_us, runs.c.id)
        .limit(bindparam("most", type_=BigInteger()))
    ).cte("due")
    return (
        update(runs)
        .where(runs.c.id.in_(select(due.c.id)), in_states(runs.c.state, SLEEPING))
        .values(state=RunState.PENDING)
        .returning(runs.c.attempt)
    )


def _anything_lost(tx: Tx) -> Select[Any]:
    over = select(nodes.c.id).where(nodes.c.state != "Dead", nodes.c.lease_until_us <= tx.lease_now)
    late = select(runs.c.id).where(
        runs.c.expires_us.is_not(None), in_states(runs.c.state, WAITING), runs.c.expires_us <= tx.now
    )
    return select(or_(over.exists(), _orphaned().exists(), late.exists()))


def _orphaned() -> Select[Any]:
    """Find runs that are held by a session that is dead or missing."""
    return (
        select(
            runs.c.id,
            runs.c.lost_leases,
            runs.c.definition_id,
            runs.c.generation,
            runs.c.cancel_requested,
            nodes.c.ended_by,
        )
        .outerjoin(nodes, nodes.c.id == runs.c.node_id)
        .where(in_states(runs.c.state, HELD), or_(nodes.c.id.is_(None), nodes.c.state == "Dead"))
    )
