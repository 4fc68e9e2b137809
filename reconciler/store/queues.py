"""What queues declare, as claims read it; and what of it people see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, select

from reconciler.model.kinds import Queue
from reconciler.model.run import HELD, RunState
from reconciler.store import places
from reconciler.store.database import Tx, in_states
from reconciler.store.queue_tables import ALL_QUEUES, queues
from reconciler.store.tables import requirements, runs
from reconciler.words import count


@dataclass(frozen=True, slots=True)
class QueueState:
    """How a queue stands: how many of its runs are held and may be, and how many are claimable."""

    name: str
    max_running: int | None
    suspended: bool
    running: int
    waiting: int

    @property
    def is_full(self) -> bool:
        """Whether every place is taken."""
        return self.max_running is not None and self.running >= self.max_running


def declare(tx: Tx, declared: Sequence[Queue], *, gone: Sequence[str]) -> None:
    """Write down what queues say now, and open or close their places. The caller has proved its term."""
    names = [*gone, *(each.name for each in declared)]
    if not names:
        return
    tx.execute(delete(queues).where(tx.among(queues.c.name, names)))
    if declared:
        tx.execute(
            insert(queues),
            [
                {
                    "name": each.name,
                    "max_running": each.max_running,
                    "aging_us": each.aging_us,
                    "suspended": each.suspend,
                }
                for each in declared
            ],
        )
    places.resize(tx, dict.fromkeys(gone) | {each.name: each.max_running for each in declared})
    places.adopt(tx)


def listed(tx: Tx) -> list[QueueState]:
    """List every queue that is declared or has live runs, and last, as `*`, all of them together."""
    said = {row.name: row for row in tx.execute(select(queues))}
    running, waiting = _counted(tx, HELD), _counted(tx, [RunState.PENDING])
    names = sorted({*said, *running, *waiting} - {ALL_QUEUES})
    running[ALL_QUEUES], waiting[ALL_QUEUES] = sum(running.values()), sum(waiting.values())
    return [_state(name, said.get(name), running, waiting) for name in [*names, ALL_QUEUES]]


def why_closed(states: Sequence[QueueState], queue: str) -> str | None:
    """Say why a claimable run of a queue is not claimed, as far as the queue is the reason."""
    by_name = {each.name: each for each in states}
    mine, everywhere = by_name.get(queue), by_name.get(ALL_QUEUES)
    if mine is not None and mine.suspended:
        return f"queue {queue!r} is suspended"
    if mine is not None and mine.is_full:
        return f"waits for a place in queue {queue!r} (max {mine.max_running})"
    if everywhere is not None and everywhere.is_full:
        most = count(everywhere.max_running or 0, "run")
        return f"waits for a place: over all queues at most {most} may be running (limits.maxRunning)"
    return None


def _counted(tx: Tx, among: Any) -> dict[str, int]:
    query = (
        select(requirements.c.queue, func.count().label("number"))
        .join(runs, runs.c.requirement_id == requirements.c.id)
        .where(in_states(runs.c.state, among))
        .group_by(requirements.c.queue)
    )
    return {row.queue: int(row.number) for row in tx.execute(query)}


def _state(name: str, said: Any, running: dict[str, int], waiting: dict[str, int]) -> QueueState:
    most, suspended = (None, False) if said is None else (said.max_running, bool(said.suspended))
    return QueueState(name, most, suspended, running.get(name, 0), waiting.get(name, 0))
