"""How many live runs there are, by queue and state: the one measure that people, monitoring and hints go by."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import case, func, select

from reconciler.model.run import HELD, RunState
from reconciler.store.database import Tx
from reconciler.store.tables import requirements, runs

READY: Final = frozenset({RunState.PENDING, RunState.BLOCKED})
"""Runs that could be held now, if there were room."""
LATER: Final = frozenset({RunState.SCHEDULED, RunState.RETRYING})
"""Runs whose instant has not come."""


@dataclass(frozen=True, slots=True)
class Depth:
    """Live runs of a queue in one state; `oldest_due_us` of those that are claimable."""

    queue: str
    state: RunState
    number: int
    oldest_due_us: int | None


class Depths:
    """The live runs of all queues at one instant."""

    def __init__(self, tx: Tx) -> None:
        """Count them, in one statement."""
        oldest = func.min(case((runs.c.state == RunState.PENDING, runs.c.due_us)))
        query = (
            select(requirements.c.queue, runs.c.state, func.count().label("number"), oldest.label("oldest"))
            .join(requirements, requirements.c.id == runs.c.requirement_id)
            .group_by(requirements.c.queue, runs.c.state)
        )
        self.each = [Depth(row.queue, RunState(row.state), int(row.number), row.oldest) for row in tx.execute(query)]

    @property
    def queues(self) -> set[str]:
        """The queues that have live runs."""
        return {each.queue for each in self.each}

    def count(self, states: Collection[RunState], queue: str | None = None) -> int:
        """Count runs in some states, of one queue or of all."""
        return sum(each.number for each in self.each if each.state in states and queue in {None, each.queue})

    def oldest_due_us(self, queue: str | None = None) -> int | None:
        """Give the instant since when the oldest claimable run waits, of one queue or of all."""
        found = [
            each.oldest_due_us for each in self.each if each.oldest_due_us is not None and queue in {None, each.queue}
        ]
        return min(found, default=None)

    @property
    def held(self) -> int:
        """How many runs are held."""
        return self.count(HELD)
