"""How a run leaves the live table, and what is kept of each hold on it.

Every way a run can end (finish, reap, cancel, prune) goes through here, so that history and attempts are written in
the same transaction as the end itself. The caller has locked the runs and proved its right to write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from sqlalchemy import ColumnElement, Delete, Insert, Update, case, delete, insert, select, update

from reconciler.model.run import AttemptOutcome, RunState, sources_of
from reconciler.store.database import Tx, in_states
from reconciler.store.dialect import Columns
from reconciler.store.order import order_key_of
from reconciler.store.tables import attempts, dead_letters, run_history, runs


@dataclass(frozen=True, slots=True)
class Hold:
    """How one hold on a run ended. `ran_us` is what the node measured, None where nobody did."""

    run_id: int
    outcome: AttemptOutcome
    ran_us: int | None = None
    exit_code: int | None = None
    error: str | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended for good; `reason` says why where the state alone does not, `last` how its last attempt did."""

    run_id: int
    state: RunState
    reason: str | None = None
    ran_us: int | None = None
    exit_code: int | None = None
    error: str | None = None
    last: AttemptOutcome | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """How long a run waits for its next attempt, and how late that may start after it."""

    run_id: int
    delay_us: int
    deadline_us: int | None = None


_HOLD: Final[Columns] = {
    "run_id": int,
    "outcome": str,
    "ran_us": int,
    "exit_code": int,
    "error": str,
    "output": str,
}
_ENDING: Final[Columns] = {
    "run_id": int,
    "state": str,
    "reason": str,
    "ran_us": int,
    "exit_code": int,
    "error": str,
    "last": str,
}
_HOLD_ROW: Final = attrgetter(*_HOLD)
_ENDING_ROW: Final = attrgetter(*_ENDING)
"""Rows in the order of their columns; `dataclasses.astuple` would copy each value deeply, and a finish cost double."""
_NO_PLACES: Final[Mapping[str, None]] = {"queue_place_id": None, "global_place_id": None}
"""A run that waits holds no place; one that is over takes its places with it."""
_RETRY: Final[Columns] = {"run_id": int, "delay_us": int, "deadline_us": int}
_RETRY_ROW: Final = attrgetter(*_RETRY)
_RUN_ID: Final[Columns] = {"run_id": int}
_KEPT: Final = (
    "definition_id",
    "generation",
    "trigger_id",
    "slot_us",
    "requirement_id",
    "priority",
    "due_us",
    "fence",
    "attempt",
    "lost_leases",
    "node_id",
    "created_us",
    "created_by",
    "started_us",
)


def record_holds(tx: Tx, holds: Sequence[Hold]) -> None:
    """Keep how holds ended, with the fence and attempt of the live rows; before those rows move on."""
    if holds:
        tx.run(_insert_attempts, **tx.pack("given", _HOLD, list(map(_HOLD_ROW, holds))))


def end(tx: Tx, endings: Sequence[Ending]) -> None:
    """Move runs into history. A terminal state is final: the live row is gone (R1)."""
    if endings:
        given = tx.pack("given", _ENDING, list(map(_ENDING_ROW, endings)))
        tx.run(_insert_history, **given)
        if any(each.state is RunState.DEAD_LETTERED for each in endings):
            tx.run(_insert_dead_letters, **given)
        tx.run(_delete_live, **tx.pack("given", _RUN_ID, [(each.run_id,) for each in endings]))


def put_back(tx: Tx, run_ids: Sequence[int], *, lost_lease: bool) -> None:
    """Make held runs claimable again; fence and order key stay, so an urgent run stays urgent.

    A lost lease counts against its own budget; an attempt that was handed back does not count at all.
    """
    if run_ids:
        again = _put_back_after_lost_lease if lost_lease else _put_back_uncounted
        tx.run(again, **tx.pack("given", _RUN_ID, [(run_id,) for run_id in run_ids]))


def retry_later(tx: Tx, retries: Sequence[Again]) -> None:
    """Let held runs wait for their backoff; they are claimable again after it, and queue by that instant."""
    if retries:
        tx.run(_retry_later, **tx.pack("given", _RETRY, sorted(map(_RETRY_ROW, retries))))


def _insert_attempts(tx: Tx) -> Insert:
    given = tx.rows("given", _HOLD)
    kept = select(
        runs.c.id,
        runs.c.fence,
        runs.c.attempt,
        runs.c.node_id,
        given.c.outcome,
        runs.c.started_us,
        _ended_at(tx, given.c.ran_us),
        given.c.exit_code,
        given.c.error,
        given.c.output,
    ).join_from(runs, given, runs.c.id == given.c.run_id)
    columns = "run_id fence attempt node_id outcome started_us finished_us exit_code error output"
    return insert(attempts).from_select(columns.split(), kept)


def _insert_history(tx: Tx) -> Insert:
    given = tx.rows("given", _ENDING)
    over = select(
        runs.c.id,
        *(runs.c[name] for name in _KEPT),
        given.c.state,
        given.c.reason,
        _ended_at(tx, given.c.ran_us),
        given.c.exit_code,
        given.c.error,
    ).join_from(runs, given, runs.c.id == given.c.run_id)
    columns = ["run_id", *_KEPT, "state", "reason", "finished_us", "exit_code", "error"]
    return insert(run_history).from_select(columns, over)


def _insert_dead_letters(tx: Tx) -> Insert:
    given = tx.rows("given", _ENDING)
    parked = select(runs.c.id, runs.c.definition_id, given.c.reason, given.c.last, given.c.error, tx.now).join_from(
        runs, given, runs.c.id == given.c.run_id
    )
    columns = ["run_id", "definition_id", "reason", "last_outcome", "error", "parked_us"]
    return insert(dead_letters).from_select(columns, parked.where(given.c.state == RunState.DEAD_LETTERED))


def _retry_later(tx: Tx) -> Update:
    given = tx.rows("given", _RETRY)
    due_us = tx.now + given.c.delay_us
    return (
        update(runs)
        .where(runs.c.id == given.c.run_id, in_states(runs.c.state, sources_of(RunState.RETRYING)))
        .values(
            state=RunState.RETRYING,
            node_id=None,
            started_us=None,
            due_us=due_us,
            expires_us=due_us + given.c.deadline_us,
            order_key=order_key_of(due_us, runs.c.priority, runs.c.requirement_id),
            **_NO_PLACES,
        )
    )


def _delete_live(tx: Tx) -> Delete:
    return delete(runs).where(runs.c.id.in_(select(tx.rows("given", _RUN_ID).c.run_id)))


def _put_back_after_lost_lease(tx: Tx) -> Update:
    return _put_back(tx).values(lost_leases=runs.c.lost_leases + 1)


def _put_back_uncounted(tx: Tx) -> Update:
    return _put_back(tx).values(attempt=runs.c.attempt - 1)


def _put_back(tx: Tx) -> Update:
    given = tx.rows("given", _RUN_ID)
    return (
        update(runs)
        .where(runs.c.id.in_(select(given.c.run_id)), in_states(runs.c.state, sources_of(RunState.PENDING)))
        # It was started in time; that its node is gone is not its fault.
        .values(state=RunState.PENDING, node_id=None, started_us=None, expires_us=None, **_NO_PLACES)
    )


def _ended_at(tx: Tx, ran_us: ColumnElement[int]) -> ColumnElement[int]:
    """The store's clock, or earlier: when the node measured a shorter run than the report took to arrive."""
    measured = runs.c.started_us + ran_us
    return case((measured < tx.now, measured), else_=tx.now)
