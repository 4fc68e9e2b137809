"""How a worker claims: the most urgent runs that it admits, and that no limit holds back.

Laws: a claim raises the run's fence by one and nothing lowers it (I2); no more runs of a queue, or of all queues, are
held than there are places (C1). Runs are found by what they ask for, each kind in its order, so work that nobody may
claim now hides none behind it. A store in which no queue is limited is asked two statements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, FromClause, Select, Update, bindparam, or_, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from reconciler.errors import SessionLostError
from reconciler.model.lease import Session
from reconciler.model.run import Claim, RunState
from reconciler.store import places
from reconciler.store.database import Tx, in_states
from reconciler.store.dialect import Columns
from reconciler.store.nodes import IS_MINE, proof_of
from reconciler.store.places import Limit
from reconciler.store.queue_tables import ALL_QUEUES, queues
from reconciler.store.tables import nodes, requirements, run_bodies, runs

_CLAIMABLE: Final = (RunState.PENDING,)
_NAME: Final[Columns] = {"name": str}
_ID: Final[Columns] = {"id": int}
_PLACED: Final[Columns] = {"id": int, "queue_place_id": int, "global_place_id": int}
_CLAIMED: Final = (
    runs.c.id,
    runs.c.fence,
    runs.c.attempt,
    runs.c.definition_id,
    runs.c.generation,
    runs.c.trigger_id,
    runs.c.slot_us,
    runs.c.requirement_id,
    runs.c.order_key,
    runs.c.has_body,
    runs.c.due_us,
    runs.c.started_us,
)
_MOST: Final = bindparam("most", type_=BigInteger())
_MINE: Final = bindparam("node_id", type_=BigInteger())


def claim(
    tx: Tx, session: Session, *, limit: int, handlers: Sequence[str], queues: Sequence[str] | None
) -> list[Claim]:
    """Take up to `limit` claimable runs that this node admits, the most urgent first, and start them.

    A draining session gets none. Raises SessionLostError when the session's lease is over.
    """
    begun = tx.run(_begin, **proof_of(session)).all()
    if not begun:
        raise SessionLostError(f"the session of {session.name} is over; its runs belong to others now")
    if begun[0].state != "Active":
        return []
    admitted = tx.pack("handlers", _NAME, [(handler,) for handler in handlers])
    if queues is not None:
        admitted |= tx.pack("queues", _NAME, [(queue,) for queue in queues])
    limits = [Limit(row.queue, row.max_running, bool(row.suspended), row.overhang) for row in begun if row.queue]
    if limits:
        won = _claim_within(tx, limits, limit, admitted, node_id=session.node_id, is_choosy=queues is not None)
    else:
        statement = _claim_from_any_queue if queues is None else _claim_from_queues
        won = tx.run(statement, node_id=session.node_id, most=limit, **admitted).all()
    return _claims(tx, sorted(won, key=lambda row: (row.order_key, row.id)))


def _begin(tx: Tx) -> Select[Any]:
    """Prove the session, and say what is limited: one row with nothing in it when nothing is."""
    query = (
        select(nodes.c.state, *places.columns())
        .select_from(nodes.outerjoin(queues, places.is_limited()))
        .where(IS_MINE, nodes.c.lease_until_us > tx.lease_now)
    )
    return tx.share_key(query, of=nodes)


def _claim_within(
    tx: Tx, limits: Sequence[Limit], most: int, admitted: Mapping[str, Any], *, node_id: int, is_choosy: bool
) -> Sequence[Any]:
    """Claim where some queues are full, suspended, or have so many places left."""
    rooms = places.free(tx, limits, most)
    closed = sorted(each.queue for each in limits if not rooms.get(each.queue))
    everywhere = rooms.get(ALL_QUEUES)
    most = most if everywhere is None else min(most, len(everywhere))
    if most == 0:
        return []
    look = _waiting_in_queues if is_choosy else _waiting_in_any_queue
    waiting = tx.run(look, most=most, **admitted, **tx.pack("closed", _NAME, [(name,) for name in closed])).all()
    shares, queue_of = _shares(waiting, {name: len(left) for name, left in rooms.items()}, most)
    given: list[tuple[int, int | None, int | None]] = []
    for kind, number in sorted(shares.items()):
        left = rooms.get(queue_of[kind])
        given += [
            (run_id, left.pop(0) if left else None, everywhere.pop(0) if everywhere else None)
            for run_id in tx.run(_lock_waiting, kind=kind, number=number).scalars()
        ]
    if not given:
        return []
    return tx.run(_claim_these, node_id=node_id, **tx.pack("given", _PLACED, sorted(given))).all()


def _shares(waiting: Iterable[Any], room: dict[str, int], most: int) -> tuple[Mapping[int, int], Mapping[int, str]]:
    """Count how many runs of each kind are among the most urgent ones that have room; also tell each kind's queue."""
    shares: Counter[int] = Counter()
    taken: Counter[str] = Counter()
    queue_of: dict[int, str] = {}
    for row in waiting:
        if taken[row.queue] < room.get(row.queue, most):
            taken[row.queue] += 1
            shares[row.kind] += 1
            queue_of[row.kind] = row.queue
            if shares.total() == most:
                break
    return shares, queue_of


def _claim_from_any_queue(tx: Tx) -> ReturningUpdate[Any]:
    return _claim(tx, _admits_handler(tx))


def _claim_from_queues(tx: Tx) -> ReturningUpdate[Any]:
    return _claim(tx, _admits_handler(tx), _serves_queue(tx))


def _claim(tx: Tx, *admitted: ColumnElement[bool]) -> ReturningUpdate[Any]:
    best = _best(tx, *admitted).cte("best")
    # CTEs, so that the planner cannot evaluate a LIMIT twice; the last LIMIT takes nothing away, but tells it how many.
    due = tx.dialect.unlocked_alike(best, partial(_first_of_kind, tx)).limit(_MOST).cte("due")
    started = _started(tx).where(runs.c.id.in_(select(due.c.id)), *_is_claimable(tx))
    return started.returning(*_CLAIMED)


def _waiting_in_any_queue(tx: Tx) -> Select[Any]:
    return _waiting(tx, _admits_handler(tx))


def _waiting_in_queues(tx: Tx) -> Select[Any]:
    return _waiting(tx, _admits_handler(tx), _serves_queue(tx))


def _waiting(tx: Tx, *admitted: ColumnElement[bool]) -> Select[Any]:
    """Find the most urgent runs of every kind that is not closed."""
    return _best(tx, *admitted, requirements.c.queue.not_in(select(tx.rows("closed", _NAME).c.name))).limit(None)


def _best(tx: Tx, *admitted: ColumnElement[bool]) -> Select[Any]:
    """Find the most urgent runs over all kinds: the first of each, walked in its order, and of these the first."""
    kinds = select(requirements.c.id.label("kind"), requirements.c.queue).where(*admitted).subquery("kinds")
    joined, found = tx.dialect.first_of_each(
        kinds, runs, lambda table: _in_order(tx, table, kinds.c.kind).limit(_MOST), lock=False
    )
    query = select(kinds.c.kind, kinds.c.queue, found.c.id).select_from(joined)
    return query.order_by(found.c.order_key, found.c.id).limit(_MOST)


def _in_order(tx: Tx, table: FromClause, kind: ColumnElement[int]) -> Select[Any]:
    """Find what is claimable of a kind; what expired is passed over here, or it hides the rest while nobody leads."""
    claimable = table.c.requirement_id == kind, *_is_claimable(tx, table)
    return select(table.c.id, table.c.order_key).where(*claimable).order_by(table.c.order_key, table.c.id)


def _first_of_kind(tx: Tx, kind: Any, number: Any) -> Select[Any]:
    return _in_order(tx, runs, kind).limit(number)


def _lock_waiting(tx: Tx) -> Select[Any]:
    kind, number = (bindparam(name, type_=BigInteger()) for name in ("kind", "number"))
    return tx.for_change(_first_of_kind(tx, kind, number))


def _claim_these(tx: Tx) -> ReturningUpdate[Any]:
    given = tx.rows("given", _PLACED)
    placed = {"queue_place_id": given.c.queue_place_id, "global_place_id": given.c.global_place_id}
    started = _started(tx).values(placed).where(runs.c.id == given.c.id, *_is_claimable(tx))
    return started.returning(*_CLAIMED)


def _is_claimable(tx: Tx, table: FromClause = runs) -> tuple[ColumnElement[bool], ...]:
    """Say that a run still waits, and not in vain: the leader takes away what expired."""
    return in_states(table.c.state, _CLAIMABLE), or_(table.c.expires_us.is_(None), table.c.expires_us > tx.now)


def _started(tx: Tx) -> Update:
    return update(runs).values(
        state=RunState.RUNNING,
        fence=runs.c.fence + 1,
        attempt=runs.c.attempt + 1,
        node_id=_MINE,
        started_us=tx.now,
    )


def _admits_handler(tx: Tx) -> ColumnElement[bool]:
    return requirements.c.handler.in_(select(tx.rows("handlers", _NAME).c.name))


def _serves_queue(tx: Tx) -> ColumnElement[bool]:
    return requirements.c.queue.in_(select(tx.rows("queues", _NAME).c.name))


def _claims(tx: Tx, won: Sequence[Any]) -> list[Claim]:
    """Complete claimed rows with what stands beside them: the handler type, and their own parameters if any."""
    if not won:
        return []
    wanted = sorted({(row.requirement_id,) for row in won})
    handlers = {row.id: row.handler for row in tx.run(_handlers, **tx.pack("wanted", _ID, wanted))}
    parameters: dict[int, str | None] = {}
    if with_body := [row.id for row in won if row.has_body]:
        bodies = select(run_bodies.c.run_id, run_bodies.c.parameters).where(tx.among(run_bodies.c.run_id, with_body))
        parameters = {row.run_id: row.parameters for row in tx.execute(bodies)}
    return [
        Claim(
            run_id=row.id,
            fence=row.fence,
            attempt=row.attempt,
            definition_id=row.definition_id,
            generation=row.generation,
            trigger_id=row.trigger_id,
            slot_us=row.slot_us,
            handler=handlers[row.requirement_id],
            parameters=parameters.get(row.id),
            waited_us=max(0, row.started_us - row.due_us),
        )
        for row in won
    ]


def _handlers(tx: Tx) -> Select[Any]:
    wanted = tx.rows("wanted", _ID)
    return select(requirements.c.id, requirements.c.handler).join(wanted, wanted.c.id == requirements.c.id)
