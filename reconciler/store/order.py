"""In which order runs are claimed: one number, fixed when the run becomes due.

A waiting run gains one level of priority per `agingPerLevel` of its queue. The difference between two runs of a queue
is the same at every instant, since both age at the same rate, so the order is a static key in an index: no sort, no
upkeep. A new value applies to keys that are made from then on.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, ColumnElement, cast, func, literal, select

from reconciler.model.definition import AGING_PER_LEVEL_US
from reconciler.store.queue_tables import queues
from reconciler.store.tables import requirements


def order_key(due_us: int, priority: int, aging_us: int = AGING_PER_LEVEL_US) -> int:
    """Give the key of a run: the lower, the sooner it is claimed."""
    return due_us + (9 - priority) * aging_us


def order_key_of(
    due_us: ColumnElement[int], priority: ColumnElement[int], requirement_id: ColumnElement[int]
) -> ColumnElement[int]:
    """Give the same key as SQL, by what the run asks for."""
    return due_us + (literal(9, BigInteger()) - cast(priority, BigInteger())) * aging_of(requirement_id)


def aging_of(requirement_id: ColumnElement[int]) -> ColumnElement[int]:
    """Give in how many microseconds a run that asks for this gains a level."""
    declared = (
        select(queues.c.aging_us)
        .join(requirements, requirements.c.queue == queues.c.name)
        .where(requirements.c.id == requirement_id)
        .correlate(requirement_id.table)
        .scalar_subquery()
    )
    return func.coalesce(declared, literal(AGING_PER_LEVEL_US, BigInteger()))
