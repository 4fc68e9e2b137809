"""Jobs as the simulation knows them: times, results, and the line that each would leave in an effect log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from reconciler.clock import SECOND_US
from reconciler.model.lease import Session
from reconciler.model.run import AttemptOutcome, Claim, Outcome
from tests.protocol.simulation.cast import Process
from tests.protocol.simulation.plan import TIMINGS
from tests.protocol.simulation.stage import Seat
from tests.protocol.simulation.world import World

_FAILS: Final = 0.2
_IS_HANDED_BACK: Final = 0.3
_IS_SHORT: Final = 0.93
_CALM_JOB_US: Final = SECOND_US // 20
_MARGIN_US: Final = round(TIMINGS.margin_seconds * SECOND_US)
_LEASE_US: Final = round(TIMINGS.lease_seconds * SECOND_US)


@dataclass(slots=True)
class Effect:
    """What a job did to the world outside."""

    run_id: int
    fence: int
    node: str
    begun_us: int
    ended_us: int | None = None
    stood_still: bool = False
    """The whole process was frozen meanwhile: nothing could end the job."""


@dataclass(slots=True)
class Seen:
    """What the nodes of a simulation saw: effects, reports that the store acknowledged, and how many it refused."""

    effects: list[Effect] = field(default_factory=list)
    acknowledged: list[tuple[int, int, AttemptOutcome]] = field(default_factory=list)
    refused: int = 0
    reads_back: bool = True
    """Whether a claim whose answer was lost is looked up (a mutant does not)."""


@dataclass(slots=True)
class Job:
    """A run in a node's hands."""

    claim: Claim
    session: Session
    effect: Effect
    until_us: int
    result: AttemptOutcome


class Jobs:
    """The jobs of one start of a node, and the deadline of its guard.

    The guard needs no turn to end them: at its deadline, counted from before the last renewal that was granted, a job
    is over whatever the store does, unless the whole process stands still.
    """

    def __init__(
        self,
        process: Process,
        seat: Seat,
        seen: Seen,
        *,
        over: Callable[[Session, Outcome], None],
        world: World,
    ) -> None:
        """Begin with none; `over` takes what came of each."""
        self._process = process
        self._seat = seat
        self._seen = seen
        self._over = over
        self._world = world
        self._held: list[Job] = []
        self._kill_at_us = 0
        process.when_gone.append(self._vanish)

    def __len__(self) -> int:
        """How many slots are taken."""
        return len(self._held)

    @property
    def keys(self) -> set[tuple[int, int]]:
        """Run and fence of each."""
        return {(job.claim.run_id, job.claim.fence) for job in self._held}

    def granted(self, asked_us: int, *, is_new: bool) -> None:
        """Note a lease that was granted on a request sent then."""
        at_us = asked_us + _LEASE_US - _MARGIN_US
        self._kill_at_us = at_us if is_new else max(self._kill_at_us, at_us)

    def start(self, session: Session, claim: Claim) -> None:
        """Start the job of a claim, unless the guard's deadline has passed."""
        now_us = self._world.elapsed_us
        effect = Effect(claim.run_id, claim.fence, self._process.name, now_us)
        lasts_us, result = self._drawn()
        job = Job(claim, session, effect, now_us + lasts_us, result)
        self._held.append(job)
        if now_us >= self._kill_at_us:
            self._end(job, now_us, AttemptOutcome.HANDED_BACK)
        else:
            self._seen.effects.append(effect)

    def settle(self) -> None:
        """See which have ended by now, by themselves or at the guard's deadline."""
        for job in list(self._held):
            killed = self._kill_at_us < job.until_us
            at_us = self._seen_at(min(job.until_us, self._kill_at_us), job.effect)
            if at_us <= self._world.elapsed_us:
                self._end(job, at_us, AttemptOutcome.LOST_LEASE if killed else job.result)

    def stop(self, run_ids: set[int] | None, result: AttemptOutcome) -> None:
        """End some now, or all of them."""
        self.settle()
        for job in list(self._held):
            if run_ids is None or job.claim.run_id in run_ids:
                self._end(job, self._world.elapsed_us, result)

    def next_us(self) -> int | None:
        """Give the instant at which the next one ends."""
        return min((min(job.until_us, self._kill_at_us) for job in self._held), default=None)

    def _drawn(self) -> tuple[int, AttemptOutcome]:
        """Draw how long a job lasts, and what comes of it; in the calm they are short and succeed."""
        drawn, is_short = self._seat.fraction(), self._seat.fraction() < _IS_SHORT
        lasts_us = 1000 * (self._seat.whole(50, 1000) if is_short else self._seat.whole(2500, 3500))
        if self._world.is_calm:
            return _CALM_JOB_US, AttemptOutcome.SUCCEEDED
        if drawn < _FAILS:
            return lasts_us, AttemptOutcome.FAILED
        return lasts_us, AttemptOutcome.HANDED_BACK if drawn < _FAILS + _IS_HANDED_BACK else AttemptOutcome.SUCCEEDED

    def _seen_at(self, at_us: int, effect: Effect) -> int:
        for begun_us, end_us in self._process.frozen:
            if effect.begun_us < end_us and begun_us <= at_us:
                effect.stood_still = True
            if begun_us <= at_us < end_us:
                at_us = end_us
        return at_us

    def _end(self, job: Job, at_us: int, result: AttemptOutcome) -> None:
        self._held.remove(job)
        job.effect.ended_us = at_us
        claim = job.claim
        self._over(job.session, Outcome(claim.run_id, claim.fence, claim.attempt, result, job.effect.begun_us, at_us))

    def _vanish(self) -> None:
        """The process is gone, and its jobs with it."""
        for job in self._held:
            self._seen_at(self._world.elapsed_us, job.effect)
            job.effect.ended_us = max(job.effect.begun_us, min(self._world.elapsed_us, job.until_us))
        self._held.clear()
