"""Pauses: people stop a job's triggers for a while, without touching its file.

Laws: slots that pass while a job is paused are recorded as they pass, with by whom; what was made ahead is taken back
in the transaction that pauses, which also makes sure that nobody settles a slot by what he read before. A pause goes by
the job's name and outlives its file: only `resume` or its own end takes it away. It is gone once each slot of it is
settled and the job is paused no more, so that a pause during which no leader lived counts like any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, case, delete, func, insert, or_, select, update

from reconciler.errors import RefusedError
from reconciler.model.lease import Term
from reconciler.model.run import HELD, RunState, SkipReason
from reconciler.store import audit
from reconciler.store.database import Tx, in_states
from reconciler.store.definitions import named
from reconciler.store.leader import guard
from reconciler.store.ledger import take_back
from reconciler.store.tables import definitions, runs
from reconciler.store.trigger_tables import pauses, triggers

_READY: Final = (RunState.PENDING, RunState.RETRYING, RunState.BLOCKED)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a job; `until_us` None means until somebody resumes it."""

    id: int
    job: str
    reason: str
    paused_by: str
    paused_us: int
    until_us: int | None
    catch_up: bool

    def holds(self, slot_us: int, now_us: int) -> bool:
        """Whether it holds a slot back; while it is on also one of before it: a paused job starts nothing."""
        return (self.is_on(now_us) or slot_us >= self.paused_us) and (self.until_us is None or slot_us < self.until_us)

    def is_on(self, now_us: int) -> bool:
        """Whether the job is paused by it now."""
        return self.until_us is None or now_us < self.until_us

    @property
    def told(self) -> str:
        """Say by whom and why, for the ledger."""
        return f"by {self.paused_by}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class Paused:
    """What a pause met: runs made ahead that it took back, and runs of the job that go on."""

    taken_back: int
    waiting: int
    running: int


def is_paused(job: ColumnElement[str], now_us: int) -> ColumnElement[bool]:
    """Say in SQL that a job is paused."""
    return select(pauses.c.id).where(pauses.c.job == job, _is_on(now_us)).exists()


def by_job(tx: Tx, jobs: Collection[str]) -> Mapping[str, Sequence[Pause]]:
    """Give the pauses of some jobs that are on, or over and not settled yet."""
    found: dict[str, list[Pause]] = defaultdict(list)
    for each in _found(tx, select(pauses).where(tx.among(pauses.c.job, jobs))):
        found[each.job].append(each)
    return found


def listed(tx: Tx) -> list[Pause]:
    """List the pauses that are on, the oldest first."""
    return _found(tx, select(pauses).where(_is_on(tx.now_us())))


def pause(tx: Tx, job: str, *, actor: str, reason: str = "", until_us: int | None = None) -> Paused:
    """Pause a job; one that is paused gets the new reason and end.

    Raises NotFoundError for an unknown job, RefusedError for an end that is over.
    """
    found, now_us = named(tx, job), tx.now_us()
    if until_us is not None and until_us <= now_us:
        raise RefusedError("the pause would be over before it begins: give a later end, or none")
    _touch(tx, found.id)
    facts = {"reason": reason, "paused_by": actor, "until_us": until_us, "catch_up": False}
    begun_us = case((pauses.c.paused_us > now_us, now_us), else_=pauses.c.paused_us)  # the clock may have stepped back
    again = update(pauses).where(pauses.c.job == job, _is_on(now_us)).values(paused_us=begun_us, **facts)
    changed = tx.execute(again)
    if changed.rowcount == 0:
        tx.execute(insert(pauses).values(job=job, paused_us=now_us, **facts))
    told = f"by {actor}" + (f": {reason}" if reason else "")
    taken = take_back(tx, SkipReason.PAUSED, told, runs.c.definition_id == found.id, now_us=now_us, by=actor)
    audit.record(
        tx, actor=actor, action="job.paused", subject=f"job/{job}", detail={"reason": reason, "until": until_us}
    )
    return Paused(taken, _count(tx, found.id, _READY), _count(tx, found.id, HELD))


def resume(tx: Tx, job: str, *, actor: str, catch_up: bool = False) -> None:
    """End the pause of a job now; `catch_up` has its slots decided by their misfire policy.

    Raises NotFoundError for an unknown job, RefusedError for one that is not paused.
    """
    found, now_us = named(tx, job), tx.now_us()
    _touch(tx, found.id)
    ended = update(pauses).where(pauses.c.job == job, _is_on(now_us))
    over_us = case((pauses.c.paused_us > now_us, pauses.c.paused_us), else_=now_us)  # the clock may have stepped back
    if tx.execute(ended.values(until_us=over_us, catch_up=catch_up)).rowcount == 0:
        raise RefusedError(f"job {job!r} is not paused")
    audit.record(tx, actor=actor, action="job.resumed", subject=f"job/{job}", detail={"catchUp": catch_up})


def over(tx: Tx, term: Term, *, limit: int) -> Mapping[str, Sequence[Pause]]:
    """Give the pauses of jobs that are paused no more, and of which every slot is settled, by job.

    While a later pause is on, an earlier one is kept: what it held back is held back still, and stays known as its own.
    """
    guard(tx, term)
    each = pauses.alias("each")
    unsettled = (
        select(triggers.c.id)
        .join(definitions, definitions.c.id == triggers.c.definition_id)
        .where(
            definitions.c.name == each.c.job,
            definitions.c.deleted_us.is_(None),
            triggers.c.next_fire_us < each.c.until_us,
        )
    )
    open_still = select(each.c.id).where(
        each.c.job == pauses.c.job, or_(each.c.until_us.is_(None), each.c.until_us > tx.now, unsettled.exists())
    )
    settled = select(pauses.c.job).where(pauses.c.until_us <= tx.now, ~open_still.exists()).distinct()
    jobs = tx.execute(settled.order_by(pauses.c.job).limit(limit)).scalars().all()
    return by_job(tx, jobs) if jobs else {}


def forget(tx: Tx, pause_ids: Sequence[int]) -> None:
    """Let go of pauses that are over and settled."""
    tx.execute(delete(pauses).where(tx.among(pauses.c.id, pause_ids)))


def _is_on(now_us: int) -> ColumnElement[bool]:
    return or_(pauses.c.until_us.is_(None), pauses.c.until_us > now_us)


def _touch(tx: Tx, definition_id: int) -> None:
    """Stop whoever settles the job's triggers at this moment: what he read of it is no longer so."""
    mine = triggers.c.definition_id == definition_id, triggers.c.removed_us.is_(None)
    tx.execute(update(triggers).where(*mine).values(revision=triggers.c.revision + 1))


def _count(tx: Tx, definition_id: int, states: Collection[RunState]) -> int:
    mine = runs.c.definition_id == definition_id, in_states(runs.c.state, states)
    return int(tx.execute(select(func.count()).where(*mine)).scalar_one())


def _found(tx: Tx, query: Select[Any]) -> list[Pause]:
    return [
        Pause(row.id, row.job, row.reason, row.paused_by, row.paused_us, row.until_us, bool(row.catch_up))
        for row in tx.execute(query.order_by(pauses.c.id))
    ]
