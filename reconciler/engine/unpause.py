"""The duty that lets go of pauses which are over, and catches up with their slots if that was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reconciler.model.lease import Term
from reconciler.store import catchup
from reconciler.store.database import Database
from reconciler.store.slots import Bounds
from reconciler.telemetry import Event, emit

_EVERY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class PauseEnded(Event):
    """A pause is over and its slots are settled; so many of them run after all."""

    job: str
    runs: int


class Unpause:
    """One leader duty. `step` may be repeated or run by two leaders: the outcome is the same (L4)."""

    def __init__(self, database: Database, bounds: Bounds) -> None:
        """Keep the store, and the policy for slots that are caught up."""
        self._database = database
        self._bounds = bounds

    def step(self, term: Term) -> float:
        """End what is over; give the seconds until the next turn. Raises NotLeaderError."""
        for ended in self._database.tx(lambda tx: catchup.end_pauses(tx, term, self._bounds)):
            if ended.runs:
                self._database.hint()
            emit(PauseEnded(ended.job, ended.runs))
        return _EVERY_SECONDS
