"""In which order runs are claimed: one number, fixed when the run becomes due.

A waiting run gains one level of priority per `AGING_PER_LEVEL_US`. The difference between two runs is the same at every
instant, since both age at the same rate, so the order is a static key in an index: no sort, no upkeep.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, ColumnElement, cast, literal

from reconciler.model.definition import AGING_PER_LEVEL_US


def order_key(due_us: int, priority: int) -> int:
    """Give the key of a run: the lower, the sooner it is claimed."""
    return due_us + (9 - priority) * AGING_PER_LEVEL_US


def order_key_of(due_us: ColumnElement[int], priority: ColumnElement[int]) -> ColumnElement[int]:
    """Give the same key as SQL."""
    return due_us + (literal(9, BigInteger()) - cast(priority, BigInteger())) * literal(
        AGING_PER_LEVEL_US, BigInteger()
    )
