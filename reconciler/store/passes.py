"""Reconcile passes: asked for, running, and how they ended; and the approvals of held deletions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import delete, insert, select, update

from reconciler.clock import SECOND_US
from reconciler.model.definition import Json, canonical
from reconciler.model.lease import Term
from reconciler.store import audit
from reconciler.store.database import Tx
from reconciler.store.leader import guard
from reconciler.store.tables import approvals, passes, sources, staged_definitions

APPROVAL_HOLDS_US: Final = 24 * 3600 * SECOND_US
_LEADERS: Final = "leader/"
"""Who asks for a pass of the leader's own: this and the number of the term."""


class PassState(StrEnum):
    """Where a pass stands."""

    REQUESTED = "Requested"
    RUNNING = "Running"
    APPLIED = "Applied"
    UNCHANGED = "Unchanged"
    INVALID = "Invalid"
    """Applied where valid; broken definitions kept their last good version."""
    REFUSED = "Refused"
    FAILED = "Failed"


OVER: Final = frozenset(PassState) - {PassState.REQUESTED, PassState.RUNNING}


@dataclass(frozen=True, slots=True)
class Pass:
    """One turn of reconciling a source."""

    id: int
    source: str
    state: PassState
    requested_by: str
    requested_us: int
    expect_digest: str | None
    term: int | None
    finished_us: int | None
    revision: str | None
    plan_digest: str | None
    deletion_digest: str | None
    report: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a source's files lie, and what of them was applied last."""

    name: str
    path: str
    host: str
    revision: str
    tree_digest: str
    applied_us: int | None


def request(tx: Tx, source: str, *, requested_by: str, expect_digest: str | None = None) -> int:
    """Ask the leader for a pass; give its id."""
    made = insert(passes).values(
        source=source,
        state=PassState.REQUESTED,
        requested_by=requested_by,
        requested_us=tx.now,
        expect_digest=expect_digest,
    )
    return int(tx.execute(made.returning(passes.c.id)).scalar_one())


def requested(tx: Tx, source: str) -> Pass | None:
    """Give the oldest pass that someone waits for."""
    query = select(passes).where(passes.c.source == source, passes.c.state == PassState.REQUESTED)
    row = tx.execute(query.order_by(passes.c.id).limit(1)).first()
    return None if row is None else _pass(row)


def start(tx: Tx, term: Term, source: str, *, pass_id: int | None) -> int:
    """Begin a pass, one that was asked for or one of the leader's own; give its id.

    Whatever an earlier pass staged and did not apply (its leader died) is swept away.
    """
    guard(tx, term)
    tx.execute(delete(staged_definitions))
    put_back(tx, term, source)
    if pass_id is None:
        pass_id = request(tx, source, requested_by=f"{_LEADERS}{term.number}")
    tx.execute(
        update(passes)
        .where(passes.c.id == pass_id)
        .values(state=PassState.RUNNING, term=term.number, started_us=tx.now)
    )
    return pass_id


def put_back(tx: Tx, term: Term, source: str) -> None:
    """End what was begun and never concluded (a fault of the store, a lost leader).

    A pass that somebody asked for is asked for again, since they wait for it; one of a leader's own has failed.
    """
    guard(tx, term)
    lost = (passes.c.state == PassState.RUNNING) & (passes.c.source == source)
    own = passes.c.requested_by.startswith(_LEADERS)
    failed = {"state": PassState.FAILED, "finished_us": tx.now, "report": canonical({"error": "the leader was lost"})}
    tx.execute(update(passes).where(lost, own).values(**failed))
    tx.execute(update(passes).where(lost, ~own).values(state=PassState.REQUESTED, term=None, started_us=None))


def conclude(  # noqa: PLR0913 - the facts of a pass, each named at the call
    tx: Tx,
    term: Term,
    pass_id: int,
    state: PassState,
    *,
    revision: str = "",
    plan_digest: str | None = None,
    deletion_digest: str | None = None,
    report: Mapping[str, Json],
) -> None:
    """Write how a pass ended."""
    guard(tx, term)
    tx.execute(
        update(passes)
        .where(passes.c.id == pass_id, passes.c.state == PassState.RUNNING)
        .values(
            state=state,
            finished_us=tx.now,
            revision=revision,
            plan_digest=plan_digest,
            deletion_digest=deletion_digest,
            report=canonical(report),
        )
    )


def show(tx: Tx, pass_id: int) -> Pass | None:
    """Give one pass."""
    row = tx.execute(select(passes).where(passes.c.id == pass_id)).first()
    return None if row is None else _pass(row)


def listed(tx: Tx, *, limit: int) -> list[Pass]:
    """List passes, the newest first."""
    return [_pass(row) for row in tx.execute(select(passes).order_by(passes.c.id.desc()).limit(limit))]


def held_under(tx: Tx, deletion_digest: str) -> Pass | None:
    """Give the newest pass that the deletion guard held under a digest."""
    query = select(passes).where(passes.c.deletion_digest == deletion_digest, passes.c.state == PassState.REFUSED)
    row = tx.execute(query.order_by(passes.c.id.desc()).limit(1)).first()
    return None if row is None else _pass(row)


def applied(tx: Tx) -> frozenset[tuple[str, str, int]]:
    """Give what each source applied last, and when: while it is the same, so are all definitions and their owners."""
    rows = tx.execute(select(sources.c.name, sources.c.tree_digest, sources.c.applied_us))
    return frozenset((row.name, row.tree_digest, row.applied_us or 0) for row in rows)


def source_of(tx: Tx, name: str) -> Source | None:
    """Give what is known of a source; None before its first pass."""
    row = tx.execute(select(sources).where(sources.c.name == name)).first()
    if row is None:
        return None
    return Source(row.name, row.path, row.host, row.revision, row.tree_digest, row.applied_us)


def is_any_applied(tx: Tx) -> bool:
    """Tell whether some source was ever applied."""
    return tx.execute(select(sources.c.name).where(sources.c.applied_us.is_not(None)).limit(1)).first() is not None


def approve(tx: Tx, digest: str, *, actor: str) -> None:
    """Approve one exact set of deletions, by its digest, for 24 hours."""
    tx.execute(delete(approvals).where(approvals.c.digest == digest))
    tx.execute(
        insert(approvals).values(digest=digest, actor=actor, approved_us=tx.now, expires_us=tx.now + APPROVAL_HOLDS_US)
    )
    audit.record(tx, actor=actor, action="deletion.approved", subject=f"deletions/{digest}", detail={})


def approved(tx: Tx) -> set[str]:
    """Give the digests of approvals that still hold."""
    return set(tx.execute(select(approvals.c.digest).where(approvals.c.expires_us > tx.now)).scalars())


def _pass(row: Any) -> Pass:
    return Pass(
        id=row.id,
        source=row.source,
        state=PassState(row.state),
        requested_by=row.requested_by,
        requested_us=row.requested_us,
        expect_digest=row.expect_digest,
        term=row.term,
        finished_us=row.finished_us,
        revision=row.revision,
        plan_digest=row.plan_digest,
        deletion_digest=row.deletion_digest,
        report=json.loads(row.report) if row.report else {},
    )
