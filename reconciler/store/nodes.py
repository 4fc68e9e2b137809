"""Node sessions: one row per process start of a worker, and the lease that all its runs hang on.

Laws: an expired session is never renewed (I4); a new process under an old name keeps nothing of the old one alive. The
epoch is the row's key while the session lives; declaring it dead changes it, and so waits for every transaction in
which the session itself holds the row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import BigInteger, Select, and_, bindparam, insert, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from reconciler.errors import SessionLostError
from reconciler.model.lease import Session, Term
from reconciler.schedule.zones import tzdata_version
from reconciler.store.database import Tx
from reconciler.store.leader import guard
from reconciler.store.tables import nodes

_EPOCH_BITS: Final = 62
_ALIVE: Final = ("Active", "Draining")


class EndedBy(StrEnum):
    """Who ended a session: its worker as it stopped, the guard of a worker that was gone, or the lease."""

    WORKER = "Worker"
    GUARD = "Guard"
    LEASE = "Lease"


IS_MINE: Final = and_(
    nodes.c.id == bindparam("my_id"),
    nodes.c.epoch == bindparam("my_epoch"),
    nodes.c.secret_hash == bindparam("my_secret_hash"),
)


@dataclass(frozen=True, slots=True)
class Node:
    """A session as people see it; `alive` by the store's clock, `lease_until_us` told in wall time."""

    id: int
    name: str
    host: str
    pid: int
    state: str
    queues: Sequence[str] | None
    handlers: Sequence[str]
    tags: Sequence[str]
    slots: int
    heartbeat_us: int
    lease_until_us: int
    alive: bool
    ended_by: EndedBy | None
    tzdata: str | None
    """The release of the time-zone data that its process has."""


def register(  # noqa: PLR0913 - the facts of a session, each named at the call
    tx: Tx,
    name: str,
    *,
    host: str,
    pid: int,
    secret: str,
    queues: Sequence[str] | None,
    handlers: Sequence[str],
    tags: Sequence[str],
    slots: int,
    lease_us: int,
) -> Session:
    """Open a session for one process start; `queues` None means all of them."""
    epoch = int(_hash(f"epoch:{secret}"), 16) >> (256 - _EPOCH_BITS)
    node_id = tx.execute(
        insert(nodes)
        .values(
            epoch=epoch,
            name=name,
            host=host,
            pid=pid,
            secret_hash=_hash(secret),
            state="Active",
            queues=None if queues is None else json.dumps(sorted(queues)),
            handlers=json.dumps(sorted(handlers)),
            tags=json.dumps(sorted(tags)),
            slots=slots,
            registered_us=tx.now,
            heartbeat_us=tx.now,
            lease_until_us=tx.lease_now + lease_us,
            tzdata=tzdata_version(),
        )
        .returning(nodes.c.id)
    ).scalar_one()
    return Session(node_id, epoch, name, secret)


def renew(tx: Tx, session: Session, *, lease_us: int) -> int | None:
    """Renew the lease of everything the session holds: one row, whatever it runs. None when it is over."""
    renewed = tx.run(_renewal, **proof_of(session), lease_us=lease_us).scalar_one_or_none()
    return None if renewed is None else int(renewed)


def drain(tx: Tx, session: Session) -> None:
    """Say that the session claims nothing more."""
    tx.execute(update(nodes).where(IS_MINE, nodes.c.state == "Active").values(state="Draining"), proof_of(session))


def end(tx: Tx, session: Session, *, by: EndedBy = EndedBy.WORKER) -> None:
    """End the session now, so that the reaper need not wait for its lease. Only after its jobs are gone."""
    ended = (
        update(nodes)
        .where(IS_MINE, nodes.c.lease_until_us > tx.lease_now)
        .values(state="Dead", epoch=-nodes.c.id, lease_until_us=tx.lease_now, ended_by=by)
    )
    tx.execute(ended, proof_of(session))


def prove(tx: Tx, session: Session) -> None:
    """Prove the session inside a worker's own transaction, first thing. Raises SessionLostError when it is over.

    Law: what a worker writes commits only while its session is alive by the store's clock, and is not yet dead.
    """
    if tx.run(_row_of_session, **proof_of(session)).first() is None:
        raise SessionLostError(f"the session of {session.name} is over; its runs belong to others now")


def bury_expired(tx: Tx, term: Term, *, limit: int) -> list[str]:
    """Declare sessions dead whose lease is over, and give their names; waits for their open transactions."""
    guard(tx, term)
    expired = tx.for_change(
        select(nodes.c.id)
        .where(nodes.c.state != "Dead", nodes.c.lease_until_us <= tx.lease_now)
        .order_by(nodes.c.id)
        .limit(limit)
    ).cte("expired")
    buried = tx.execute(
        update(nodes)
        .where(nodes.c.id.in_(select(expired.c.id)), nodes.c.state != "Dead", nodes.c.lease_until_us <= tx.lease_now)
        .values(state="Dead", epoch=-nodes.c.id, ended_by=EndedBy.LEASE)
        .returning(nodes.c.name)
    )
    return [row.name for row in buried]


def listed(tx: Tx, *, limit: int, with_dead: bool = False) -> list[Node]:
    """List sessions, the newest first."""
    alive = and_(nodes.c.state.in_(_ALIVE), nodes.c.lease_until_us > tx.lease_now)
    until_us = nodes.c.lease_until_us - tx.lease_now + tx.now
    query = select(nodes, alive.label("alive"), until_us.label("wall_until_us"))
    if not with_dead:
        query = query.where(nodes.c.state != "Dead")
    return [_node(row) for row in tx.execute(query.order_by(nodes.c.id.desc()).limit(limit))]


def serves(tx: Tx, *, queue: str, handler: str) -> bool:
    """Tell whether some living node, not draining, would claim a run of this queue and handler."""
    return any(
        node.alive
        and node.state == "Active"
        and handler in node.handlers
        and (node.queues is None or queue in node.queues)
        for node in listed(tx, limit=10_000)
    )


def proof_of(session: Session) -> dict[str, Any]:
    """Give what only the session itself knows, as parameters of statements that compare with `IS_MINE`."""
    return {"my_id": session.node_id, "my_epoch": session.epoch, "my_secret_hash": _hash(session.secret)}


def _renewal(tx: Tx) -> ReturningUpdate[Any]:
    return (
        update(nodes)
        .where(IS_MINE, nodes.c.lease_until_us > tx.lease_now)
        .values(heartbeat_us=tx.now, lease_until_us=tx.lease_now + bindparam("lease_us", type_=BigInteger()))
        .returning(nodes.c.lease_until_us)
    )


def _row_of_session(tx: Tx) -> Select[Any]:
    return tx.share_key(select(nodes.c.id).where(IS_MINE, nodes.c.lease_until_us > tx.lease_now))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _node(row: Any) -> Node:
    return Node(
        id=row.id,
        name=row.name,
        host=row.host,
        pid=row.pid,
        state=row.state,
        queues=None if row.queues is None else json.loads(row.queues),
        handlers=json.loads(row.handlers),
        tags=json.loads(row.tags),
        slots=row.slots,
        heartbeat_us=row.heartbeat_us,
        lease_until_us=row.wall_until_us,
        alive=bool(row.alive),
        ended_by=None if row.ended_by is None else EndedBy(row.ended_by),
        tzdata=row.tzdata,
    )
