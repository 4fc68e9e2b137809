"""How queues stand: what waits and runs in each, who serves it, and why a run of it is not claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select

from reconciler.model.run import HELD
from reconciler.store import nodes as sessions
from reconciler.store.database import Tx
from reconciler.store.depths import LATER, READY, Depths
from reconciler.store.nodes import Node
from reconciler.store.queue_tables import ALL_QUEUES
from reconciler.store.queue_tables import queues as declared
from reconciler.store.tables import definitions, requirements
from reconciler.words import count

_NODES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: what waits and runs in it, since when the oldest claimable run waits, and who serves it."""

    name: str
    jobs: int
    waiting: int
    """Runs that are due and not held."""
    later: int
    """Runs whose instant has not come."""
    running: int
    oldest_due_us: int | None
    slots: int
    workers: Sequence[str]
    unserved: Sequence[str]
    """Handlers that jobs of this queue want and no living worker of it has."""
    max_running: int | None = None
    suspended: bool = False

    @property
    def is_full(self) -> bool:
        """Whether every place is taken."""
        return self.max_running is not None and self.running >= self.max_running


@dataclass(frozen=True, slots=True)
class _Facts:
    """What there is to know of all queues."""

    depths: Depths
    jobs: Mapping[str, int]
    wanted: Mapping[str, set[str]]
    """Handlers that live jobs want, by queue."""
    living: Sequence[Node]
    said: Mapping[str, Any]
    """What queues declare."""


def listed(tx: Tx) -> list[Queue]:
    """List every queue that is declared, or that a job, a run or a worker names, by name.

    Where all together are capped, they come first as `*`.
    """
    jobs, wanted = _wanted(tx)
    living = [node for node in sessions.listed(tx, limit=_NODES) if node.alive and node.state == "Active"]
    facts = _Facts(Depths(tx), jobs, wanted, living, {row.name: row for row in tx.execute(select(declared))})
    named = {queue for node in living for queue in node.queues or ()}
    names = sorted({*jobs, *facts.depths.queues, *named, *facts.said} - {ALL_QUEUES})
    everywhere = facts.said.get(ALL_QUEUES)
    is_capped = everywhere is not None and everywhere.max_running is not None
    return [_queue(name, facts) for name in ([ALL_QUEUES, *names] if is_capped else names)]


def why_closed(queues: Sequence[Queue], queue: str) -> str | None:
    """Say why a claimable run of a queue is not claimed, as far as the queue is the reason."""
    by_name = {each.name: each for each in queues}
    mine, everywhere = by_name.get(queue), by_name.get(ALL_QUEUES)
    if mine is not None and mine.suspended:
        return f"queue {queue!r} is suspended"
    if mine is not None and mine.is_full:
        return f"waits for a place in queue {queue!r} (max {mine.max_running})"
    if everywhere is not None and everywhere.is_full:
        most = count(everywhere.max_running or 0, "run")
        return f"waits for a place: over all queues at most {most} may be running (limits.maxRunning)"
    return None


def _queue(name: str, facts: _Facts) -> Queue:
    which = None if name == ALL_QUEUES else name
    serving = [node for node in facts.living if which is None or node.queues is None or name in node.queues]
    offered = {handler for node in serving for handler in node.handlers}
    said = facts.said.get(name)
    return Queue(
        name=name,
        jobs=sum(facts.jobs.values()) if which is None else facts.jobs.get(name, 0),
        waiting=facts.depths.count(READY, which),
        later=facts.depths.count(LATER, which),
        running=facts.depths.count(HELD, which),
        oldest_due_us=facts.depths.oldest_due_us(which),
        slots=sum(node.slots for node in serving),
        workers=sorted(node.name for node in serving),
        unserved=sorted(facts.wanted.get(name, set()) - offered),
        max_running=None if said is None else said.max_running,
        suspended=said is not None and bool(said.suspended),
    )


def _wanted(tx: Tx) -> tuple[Mapping[str, int], Mapping[str, set[str]]]:
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
