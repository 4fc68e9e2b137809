"""The duty that notices the dead: sessions past their lease, and the runs they leave behind."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from reconciler.model.lease import Term
from reconciler.store import nodes, runs
from reconciler.store.database import Database
from reconciler.telemetry import Event, emit

_BATCH: Final = 500
_EVERY_SECONDS: Final = 0.5
_FULL_TURN: Final = 4
"""Each so many looks there is a whole turn, whatever is seen: runs that were claimed while a cap began are counted."""


@dataclass(frozen=True, slots=True)
class NodeBuried(Event):
    """A node's session is over by the store's clock."""

    level: ClassVar[int] = logging.WARNING
    name: str


@dataclass(frozen=True, slots=True)
class RunsReaped(Event):
    """Runs lost their lease: claimable again, parked when they lost too many, or cancelled as was asked."""

    level: ClassVar[int] = logging.WARNING
    put_back: Sequence[int]
    parked: Sequence[int]
    cancelled: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class RunsCounted(Event):
    """Runs were claimed while a cap of theirs began: now they count."""

    runs: int


@dataclass(frozen=True, slots=True)
class RunsExpired(Event):
    """Nobody started these runs by their starting deadline; they are recorded as skipped."""

    level: ClassVar[int] = logging.WARNING
    runs: Sequence[int]


class Reap:
    """One leader duty. `step` may be repeated or run by two leaders: the outcome is the same (L4)."""

    def __init__(self, database: Database) -> None:
        """Keep the store."""
        self._database = database
        self._looks = -1

    def step(self, term: Term) -> float:
        """Bury expired sessions and take their runs back; give the seconds until the next turn."""
        self._looks += 1
        if self._looks % _FULL_TURN and not self._database.read(runs.is_anything_lost):
            return _EVERY_SECONDS
        for name in self._database.tx(lambda tx: nodes.bury_expired(tx, term, limit=_BATCH)):
            emit(NodeBuried(name))
        while expired := self._database.tx(lambda tx: runs.expire(tx, term, limit=_BATCH)):
            emit(RunsExpired(expired))
        while True:
            reaped = self._database.tx(lambda tx: runs.reap(tx, term, limit=_BATCH))
            if reaped.counted:
                emit(RunsCounted(reaped.counted))
            taken = len(reaped.put_back) + len(reaped.parked) + len(reaped.cancelled)
            if taken:
                self._database.hint()
                emit(RunsReaped(reaped.put_back, reaped.parked, reaped.cancelled))
            if taken < _BATCH:
                return _EVERY_SECONDS
