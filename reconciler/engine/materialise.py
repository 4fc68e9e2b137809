"""The duty that turns time into runs: settle due slots a little ahead, and wake waiting runs at their instant."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from reconciler.engine.clockwatch import ClockWatch
from reconciler.model.lease import Term
from reconciler.store import runs, slots
from reconciler.store.database import Database
from reconciler.store.slots import Bounds, Outlook
from reconciler.telemetry import Event, emit

_BATCH: Final = 1000
_SHORTEST_SECONDS: Final = 0.005
_LONGEST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class TriggerBroken(Event):
    """A trigger of the store makes no sense to this program: it does not fire, the others do."""

    level: ClassVar[int] = logging.ERROR
    trigger_id: int
    error: str


@dataclass(frozen=True, slots=True)
class SlotsSettled(Event):
    """Slots became runs, or were recorded as skipped, by reason."""

    runs: int
    skipped: Mapping[str, int]
    misfires: Mapping[str, int]
    """Slots that were noticed too late, by the policy that decided over them."""
    deferred: Mapping[str, int]
    """Slots that wait for a calendar, by its name."""


@dataclass(frozen=True, slots=True)
class RunsAwoken(Event):
    """Waiting runs became claimable: their slot is due, or their backoff is over."""

    level: ClassVar[int] = logging.DEBUG
    due: int
    retried: int


class Materialise:
    """One leader duty. `step` may be repeated or run by two leaders: the outcome is the same (L4)."""

    def __init__(self, database: Database, bounds: Bounds, *, watch: ClockWatch) -> None:
        """Keep the store, how far ahead to look, and what becomes of slots that were missed."""
        self._database = database
        self._bounds = bounds
        self._watch = watch
        self._told: dict[int, str] = {}
        """Broken triggers that were told of; each once per error."""

    def step(self, term: Term) -> float:
        """Do what is due, unless the clock cannot be trusted; give the seconds until something may be due again.

        Raises NotLeaderError.
        """
        outlook, stepped = self._look()
        if self._watch.is_held:
            return _LONGEST_SECONDS
        if not outlook.is_due(self._bounds.look_ahead_us) and not stepped:
            return outlook.pause_seconds(self._bounds.look_ahead_us)
        bounds = replace(self._bounds, stepped=stepped) if stepped else self._bounds
        more = self._promote(term)
        made, due = 0, 0
        skipped, misfires, deferred = Counter[str](), Counter[str](), Counter[str]()
        while True:
            settled = self._database.tx(lambda tx: slots.settle(tx, term, bounds))
            made += settled.runs
            due += settled.due
            skipped.update(settled.skipped)
            misfires.update(settled.misfires)
            deferred.update(settled.deferred)
            self._tell(settled.broken)
            more = self._promote(term) or more
            if not settled.more:
                break
        if due:
            self._database.hint()
        if made or skipped:
            emit(SlotsSettled(made, dict(skipped), dict(misfires), dict(deferred)))
        return _SHORTEST_SECONDS if more else self._look()[0].pause_seconds(self._bounds.look_ahead_us)

    def _look(self) -> tuple[Outlook, tuple[int, int] | None]:
        """Read the clock and what comes next, and whether the clock just jumped."""
        seen: list[Outlook] = []

        def read() -> int:
            seen.append(self._database.read(slots.outlook))
            return seen[-1].now_us

        stepped = self._watch.look(read)
        return seen[-1], stepped

    def _tell(self, broken: Mapping[int, str]) -> None:
        for trigger_id, error in broken.items():
            if self._told.get(trigger_id) != error:
                self._told[trigger_id] = error
                emit(TriggerBroken(trigger_id, error))

    def _promote(self, term: Term) -> bool:
        awoken = self._database.tx(lambda tx: runs.promote(tx, term, limit=_BATCH))
        if awoken.due or awoken.retried:
            self._database.hint()
            emit(RunsAwoken(awoken.due, awoken.retried))
        return awoken.due + awoken.retried == _BATCH
