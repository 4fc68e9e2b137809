"""Processes that lead when nobody else does: one thread keeps the term, the other does the duties, as in `serve`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from reconciler.engine.clockwatch import ClockWatch
from reconciler.engine.leader import Candidate
from reconciler.engine.loop import Duties, Duty
from reconciler.engine.materialise import Materialise
from reconciler.engine.reap import Reap
from reconciler.engine.unpause import Unpause
from reconciler.errors import NotLeaderError, StoreUnavailableError
from reconciler.model.lease import Term
from reconciler.model.policy import DEFAULT_MISFIRE
from reconciler.store.slots import Bounds
from tests.protocol.simulation.cast import Process
from tests.protocol.simulation.plan import TIMINGS
from tests.protocol.simulation.stage import Seat, Stage
from tests.protocol.simulation.world import World

_RENEW_SECONDS: Final = 1.0
_STAND_SECONDS: Final = 1.6
_MATERIALISE_SECONDS: Final = 1.2
_REAP_SECONDS: Final = 1.6
"""Nobody polls as often as in earnest, so that schedules are short."""
_RESIGNS: Final = 0.02


class Leaders:
    """All that lead, or may: `term` gives what one of them believes, true or not."""

    def __init__(self, stage: Stage, world: World) -> None:
        """Begin with nobody."""
        self._stage = stage
        self._world = world
        self._candidates: dict[str, Candidate] = {}

    def process(self, name: str) -> Process:
        """Make a process that leads when it can."""
        return Process(name, self._bodies)

    def term(self) -> Term:
        """Give the term of the first who believes to lead. Raises NotLeaderError when none does."""
        for candidate in self._candidates.values():
            try:
                return candidate.term()
            except NotLeaderError:
                continue
        raise NotLeaderError("nobody leads")

    def _bodies(self, process: Process) -> Sequence[tuple[str, Callable[[], None]]]:
        keeper, worker = self._stage.seat(process.name), self._stage.seat(f"{process.name}/duties")
        for seat in (keeper, worker):
            seat.begin(process.starts)
        owner = f"{process.name}#{process.starts}"
        candidate = Candidate(keeper.database, owner=owner, timings=TIMINGS, clock=keeper)
        self._candidates[process.name] = candidate
        return [
            (process.name, lambda: self._lead(candidate, keeper)),
            (f"{process.name}/duties", lambda: self._work(candidate, worker)),
        ]

    def _lead(self, candidate: Candidate, seat: Seat) -> None:
        """Stand, lead, and now and then stop cleanly."""
        while seat.fraction() >= _RESIGNS:
            try:
                leads = candidate.step() >= TIMINGS.leader_ttl_seconds / 3
            except StoreUnavailableError:
                leads = True
            self._world.sleep(_RENEW_SECONDS if leads else _STAND_SECONDS)
        candidate.resign()

    def _work(self, candidate: Candidate, seat: Seat) -> None:
        bounds = Bounds.of(TIMINGS, DEFAULT_MISFIRE)
        materialise, reap = Materialise(seat.database, bounds, watch=ClockWatch(seat)), Reap(seat.database)
        duties = Duties(
            candidate,
            [
                Duty("materialise", self._under(materialise.step, _MATERIALISE_SECONDS)),
                Duty("reap", self._under(reap.step, _REAP_SECONDS)),
                Duty("unpause", self._under(Unpause(seat.database, bounds).step, _REAP_SECONDS)),
            ],
            clock=seat,
            exclusive=threading.Lock(),
        )
        while True:
            self._world.sleep(max(duties.step(), 0.2))

    def _under(self, step: Callable[[Term], float], shortest_seconds: float) -> Callable[[Term], float]:
        def stepped(term: Term) -> float:
            with self._world.acting(term=term.number):
                return max(step(term), shortest_seconds)

        return stepped
