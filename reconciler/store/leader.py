"""The leader's row: who leads, under which term, until when.

Laws: the term only grows (L1); no leader's write commits under a term that is not current (L2), because every leader
transaction first locks the row of its own term, and a takeover, which changes that key, waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, bindparam, select, update

from reconciler.errors import NotLeaderError
from reconciler.model.lease import Term
from reconciler.store.database import Tx
from reconciler.store.tables import leader


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leader row as it stands; `alive` by the store's clock."""

    owner: str
    term: int
    expires_us: int
    alive: bool


def acquire(tx: Tx, owner: str, *, ttl_us: int) -> Term | None:
    """Take the lead if nobody holds it, under a new term; None while another leads."""
    won = tx.execute(
        update(leader)
        .where(leader.c.id == 1, leader.c.expires_us <= tx.lease_now)
        .values(term=leader.c.term + 1, owner=owner, acquired_us=tx.now, expires_us=tx.lease_now + ttl_us)
        .returning(leader.c.term)
    ).first()
    return Term(won.term, owner) if won else None


def renew(tx: Tx, term: Term, *, ttl_us: int) -> bool:
    """Keep the lead for another `ttl_us`; False when it ran out or is another's. An expired lead is never renewed."""
    kept = tx.execute(
        update(leader)
        .where(leader.c.term == term.number, leader.c.owner == term.owner, leader.c.expires_us > tx.lease_now)
        .values(expires_us=tx.lease_now + ttl_us)
    )
    return kept.rowcount == 1


def release(tx: Tx, term: Term) -> None:
    """Give up the lead, so that the next candidate need not wait for it to run out."""
    tx.execute(
        update(leader).where(leader.c.term == term.number, leader.c.owner == term.owner).values(expires_us=tx.lease_now)
    )


def guard(tx: Tx, term: Term) -> None:
    """Prove the term inside the duty's own transaction, first thing. Raises NotLeaderError when it is over."""
    if tx.run(_row_of_term, term=term.number, owner=term.owner).first() is None:
        raise NotLeaderError(f"{term.owner} lost term {term.number}; the new leader will do this work")


def current(tx: Tx) -> Leadership:
    """Show who leads."""
    row = tx.execute(
        select(
            leader.c.owner,
            leader.c.term,
            (leader.c.expires_us - tx.lease_now + tx.now).label("expires_us"),
            (leader.c.expires_us > tx.lease_now).label("alive"),
        )
    ).one()
    return Leadership(row.owner, row.term, row.expires_us, bool(row.alive))


def _row_of_term(tx: Tx) -> Select[Any]:
    mine = select(leader.c.term).where(leader.c.term == bindparam("term"), leader.c.owner == bindparam("owner"))
    return tx.share_key(mine)
