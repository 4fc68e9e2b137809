"""What queues declare, as claims read it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert

from reconciler.model.kinds import Queue
from reconciler.store import places
from reconciler.store.database import Tx
from reconciler.store.queue_tables import queues


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
