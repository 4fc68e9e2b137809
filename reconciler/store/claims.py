"""What a worker does to the runs it holds: finish, hand back. Every write compares the fence.

Laws: a write that carries another fence than the run's changes nothing (I3); one claim per run is alive at a time (I1).
Each step first proves the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Select, bindparam, func, select

from reconciler.model.definition import DEFAULT_MAX_LOST_LEASES, DEFAULT_RETRY, Job
from reconciler.model.lease import Session
from reconciler.model.policy import Ended, after_attempt
from reconciler.model.run import (
    CANCEL_WANTED,
    HELD,
    TERMINAL,
    AttemptOutcome,
    Claim,
    Outcome,
    RunState,
    sources_of,
)
from reconciler.store.database import Tx, in_states
from reconciler.store.definitions import find_version
from reconciler.store.dialect import Columns
from reconciler.store.history import Again, Ending, Hold, end, put_back, record_holds, retry_later
from reconciler.store.logs import keep
from reconciler.store.nodes import prove
from reconciler.store.tables import attempts, run_history, runs

_CLAIMABLE: Final = (RunState.PENDING,)
_STARTED: Final = tuple(sources_of(RunState.SUCCEEDED))
_COUNTED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.LOST_LEASE})
"""What uses up a budget of the run, so that its declaration says where it goes."""
_NAME: Final[Columns] = {"name": str}
_ID: Final[Columns] = {"id": int}
_REPORTED: Final[Columns] = {"run_id": int, "fence": int}
_RESULT: Final[Columns] = {**_REPORTED, "result": str}


def finish(tx: Tx, session: Session, outcomes: Sequence[Outcome]) -> dict[int, RunState]:
    """Record how attempts ended; give what became of each run whose report was accepted: the others were fenced out.

    The last lines of each log are stored in the same transaction, so that the log of a run that is over is whole.
    May be repeated when the answer was lost: what stands in the store already is told as accepted, and written once
    (R4). Raises SessionLostError when the session's lease is over: then nothing new was accepted.
    """
    prove(tx, session)
    held = _held(tx, session, outcomes)
    accepted = [each for each in outcomes if each.run_id in held and held[each.run_id].fence == each.fence]
    if fresh := [line for each in accepted for line in each.log]:
        keep(tx, session, fresh, {(row.id, row.fence): row.attempt for row in held.values()})
    record_holds(
        tx,
        [Hold(each.run_id, each.result, _ran_us(each), each.exit_code, each.error, each.output) for each in accepted],
    )
    taken = _move_on(tx, [(held[each.run_id], each) for each in accepted])
    return taken | recorded(tx, session, [each for each in outcomes if each.run_id not in taken])


def recorded(tx: Tx, session: Session, outcomes: Sequence[Outcome]) -> dict[int, RunState]:
    """Give those of the reported runs whose attempt ended in the store as this session reported before, as they are.

    So a report whose answer was lost is known to be accepted even when the session is over by now.
    """
    if not outcomes:
        return {}
    reported = tx.pack("reported", _RESULT, sorted((each.run_id, each.fence, each.result) for each in outcomes))
    found = tx.run(_find_recorded, node_id=session.node_id, **reported)
    return {row.run_id: RunState(row.state) for row in found}


def hand_back(tx: Tx, session: Session, held: Sequence[Claim]) -> dict[int, RunState]:
    """Give runs back that this node will not finish (a drain): others may claim them at once."""
    error = "the node was drained before the run ended"
    outcomes = [
        Outcome(
            each.run_id,
            each.fence,
            each.attempt,
            AttemptOutcome.HANDED_BACK,
            started_us=0,
            finished_us=0,
            error=error,
        )
        for each in held
    ]
    return finish(tx, session, outcomes)


def held_by(tx: Tx, session: Session) -> list[tuple[int, int]]:
    """Give (run id, fence) of every run this session holds, to be compared with what the node knows it holds.

    A claim whose answer was lost is in nobody's hands; the node gives it back.
    """
    mine = select(runs.c.id, runs.c.fence).where(runs.c.node_id == session.node_id, in_states(runs.c.state, HELD))
    return [(row.id, row.fence) for row in tx.execute(mine.order_by(runs.c.id))]


def cancels_requested(tx: Tx, session: Session) -> set[int]:
    """Give the runs of this session that someone asked to cancel."""
    # HELD, as the index says it: SQLite uses a partial index only for the very list of states in its WHERE.
    asked = select(runs.c.id).where(
        runs.c.node_id == session.node_id, in_states(runs.c.state, HELD), runs.c.cancel_requested
    )
    return set(tx.execute(asked).scalars())


def _move_on(tx: Tx, reports: Sequence[tuple[Any, Outcome]]) -> dict[int, RunState]:
    """Send each run where its policy says: into history, back to be claimed, or to wait for its backoff."""
    jobs = _declared(tx, [run for run, each in reports if each.result in _COUNTED])
    endings, retries, targets = [], [], {}
    back: dict[bool, list[int]] = {False: [], True: []}
    for run, each in reports:
        job = jobs.get((run.definition_id, run.generation))
        retry = DEFAULT_RETRY if job is None else job.retry
        most = DEFAULT_MAX_LOST_LEASES if job is None else job.max_lost_leases
        failures, is_lost = run.attempt - run.lost_leases, each.result is AttemptOutcome.LOST_LEASE
        lost_leases = run.lost_leases + is_lost
        ended = Ended(each.result, failures, lost_leases, each.exit_code, each.is_permanent, run.cancel_requested)
        target = targets[run.id] = after_attempt(ended, retry, max_lost_leases=most)
        if target is RunState.RETRYING:
            delay_us = retry.delay_us(failures, seed=f"{run.id}/{run.fence}")
            retries.append(Again(run.id, delay_us, None if job is None else job.starting_deadline_us))
        elif target in TERMINAL:
            endings.append(_ending(each, target))
        else:
            back[is_lost].append(run.id)
    end(tx, endings)
    for is_lost, run_ids in back.items():
        put_back(tx, run_ids, lost_lease=is_lost)
    retry_later(tx, retries)
    return targets


def _ending(outcome: Outcome, target: RunState) -> Ending:
    # Its attempt says how that ended; the run says that it was cancelled.
    is_cut_short = target is RunState.CANCELLED and outcome.result is not AttemptOutcome.CANCELLED
    return Ending(
        outcome.run_id,
        target,
        reason=_why_parked(outcome) if target is RunState.DEAD_LETTERED else None,
        ran_us=_ran_us(outcome),
        exit_code=outcome.exit_code,
        error=CANCEL_WANTED if is_cut_short else outcome.error,
        last=outcome.result,
    )


def _why_parked(outcome: Outcome) -> str:
    return "TooManyLostLeases" if outcome.result is AttemptOutcome.LOST_LEASE else "AttemptsUsedUp"


def _declared(tx: Tx, failed: Sequence[Any]) -> dict[tuple[int, int], Job | None]:
    """Load the versions that failed runs are bound to, each once."""
    wanted = {(run.definition_id, run.generation) for run in failed}
    return {key: find_version(tx, *key) for key in sorted(wanted)}


def _held(tx: Tx, session: Session, outcomes: Sequence[Outcome]) -> dict[int, Any]:
    """Lock the reported runs that this session still holds under the reported fence, in order of id."""
    reported = tx.pack("reported", _REPORTED, sorted((each.run_id, each.fence) for each in outcomes))
    return {row.id: row for row in tx.run(_lock_held, node_id=session.node_id, **reported)}


def _find_recorded(tx: Tx) -> Select[Any]:
    reported = tx.rows("reported", _RESULT)
    return (
        select(attempts.c.run_id, func.coalesce(run_history.c.state, runs.c.state).label("state"))
        .join(reported, (attempts.c.run_id == reported.c.run_id) & (attempts.c.fence == reported.c.fence))
        .outerjoin(run_history, run_history.c.run_id == attempts.c.run_id)
        .outerjoin(runs, runs.c.id == attempts.c.run_id)
        .where(attempts.c.node_id == bindparam("node_id"), attempts.c.outcome == reported.c.result)
    )


def _lock_held(tx: Tx) -> Select[Any]:
    reported = tx.rows("reported", _REPORTED)
    return (
        select(
            runs.c.id,
            runs.c.fence,
            runs.c.attempt,
            runs.c.lost_leases,
            runs.c.definition_id,
            runs.c.generation,
            runs.c.cancel_requested,
        )
        .join(reported, (runs.c.id == reported.c.run_id) & (runs.c.fence == reported.c.fence))
        # `+ 0` keeps planners from the index of what a node holds: by it, each of n rows meets each of n reports.
        .where(runs.c.node_id + 0 == bindparam("node_id"), in_states(runs.c.state, _STARTED))
        .order_by(runs.c.id)
        .with_for_update(of=runs)
    )


def _ran_us(outcome: Outcome) -> int:
    return max(0, outcome.finished_us - outcome.started_us)
