"""What a new leader does first when its time-zone data is not that by which the slots to come were planned."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from reconciler.model.lease import Term
from reconciler.schedule.zones import tzdata_version
from reconciler.store import facts, replan
from reconciler.store.database import Database, Tx
from reconciler.store.leader import guard
from reconciler.telemetry import Event, emit

PLANNED_WITH: Final = "tzdata"
"""The fact that names the zone data by which slots are planned."""
_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class ZoneDataChanged(Event):
    """Slots are planned by other time-zone data than before; every node should have the same."""

    level: ClassVar[int] = logging.WARNING
    before: str
    now: str
    triggers: int


class ZoneData:
    """An opening of the leader's duties. It may be repeated, and stopped anywhere: the next term does the rest."""

    def __init__(self, database: Database) -> None:
        """Keep the store."""
        self._database = database

    def follow(self, term: Term) -> None:
        """Plan what goes by local time anew, if the data changed. Raises NotLeaderError."""
        before, now = self._database.read(partial(facts.known, key=PLANNED_WITH)), tzdata_version()
        if before == now:
            return
        triggers, last_id = 0, 0
        while before is not None:
            batch = self._database.tx(partial(replan.by_local_time, term=term, after_id=last_id, limit=_BATCH))
            triggers += len(batch)
            if len(batch) < _BATCH:
                break
            last_id = batch[-1]
        self._database.tx(partial(_note, term=term, version=now))
        if before is not None:
            emit(ZoneDataChanged(before, now, triggers))


def _note(tx: Tx, *, term: Term, version: str) -> None:
    guard(tx, term)
    facts.note(tx, PLANNED_WITH, version)
