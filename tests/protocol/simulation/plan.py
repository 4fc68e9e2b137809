"""What a seed means: the cast, the faults, and a tape of numbers that gives each step its own chance.

The numbers of a step depend on the seed and on the number of the step only, never on what happened before. So a seed
and the set of steps at which it deviates from the plain order are everything: leave steps out, and the rest stays.
"""

from __future__ import annotations

import math
import random  # noqa: TID251 - seeded chance is what a simulation is made of
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.clock import SECOND_US
from reconciler.model.lease import Timings

TIMINGS: Final = Timings(
    lease_seconds=2.5,
    heartbeat_seconds=1.0,
    leader_ttl_seconds=1.5,
    rescan_seconds=30.0,
    look_ahead_seconds=1.0,
)
LEASE_US: Final = round(TIMINGS.lease_seconds * SECOND_US)
TTL_US: Final = round(TIMINGS.leader_ttl_seconds * SECOND_US)
RUN_US: Final = 6 * SECOND_US
"""How long faults may happen."""
CALM_US: Final = 45 * SECOND_US
"""How long after the last fault a run may take to end: its lease, a new leader, and the runs that wait before it."""
LIKELY_STEPS: Final = 350
"""About as many steps as a schedule has before the calm; change points of priorities lie within."""
_DAY_SECONDS: Final = 86_400
_SHORT_STEP_SECONDS: Final = 60


class Fault(StrEnum):
    """What may go wrong at a step."""

    STALL = "stall"
    """One thread stands still for 0.5 to 4 leases."""
    FREEZE = "freeze"
    """A whole process stands still, its guard and its jobs too."""
    CRASH = "crash"
    """A process is gone, its transaction rolled back; later it starts anew under the same name."""
    REFUSED = "refused"
    """A statement or COMMIT fails, and nothing of the transaction stays."""
    LOST_ACK = "lost-ack"
    """A COMMIT succeeds and its caller is told that it failed."""
    CUT = "cut"
    """A process cannot reach the store for 0.5 to 4 leases."""
    WALL_STEP = "wall-step"
    """The wall clock of the machine jumps, back or ahead."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything a seed decides before the first step."""

    seed: int
    workers: int
    faults: tuple[Fault, ...]
    fault_rate: float
    most_faults: int
    victims: str
    """Whom most faults strike: threads whose names begin so."""
    switch_rate: float
    """How often the random walk leaves the plain order."""
    change_points: frozenset[int] | None
    """Where priorities change; None means a random walk."""
    intervals: tuple[str, str, str]
    caps: tuple[int | None, int | None]
    """How many runs of the queue of two jobs, and of all queues, may run at once."""
    longest_step_seconds: int

    def __str__(self) -> str:
        order = "random walk" if self.change_points is None else f"priorities, changed at {sorted(self.change_points)}"
        faults = ", ".join(self.faults) or "none"
        return f"seed {self.seed}: {self.workers} workers, {order}, at most {self.most_faults} faults of: {faults}"


def scenario_of(seed: int) -> Scenario:
    """Draw a scenario; each seed gets a subset of the faults of its own ("swarm")."""
    chance = chance_of(seed, "scenario")
    faults = tuple(chance.sample(list(Fault), chance.choice((0, 1, 1, 2, 2, 3, 4, len(Fault)))))
    by_priority = chance.random() < 0.5
    points = frozenset(chance.sample(range(1, LIKELY_STEPS), chance.randint(2, 4)))
    far = Fault.WALL_STEP in faults and chance.random() < 0.5
    return Scenario(
        seed=seed,
        workers=chance.choice((2, 2, 2, 3)),
        faults=faults,
        fault_rate=chance.choice((0.01, 0.03, 0.06)),
        most_faults=chance.randint(2, 8) if faults else 0,
        victims=chance.choice(("", "worker", "worker", "leader")),
        switch_rate=chance.choice((0.05, 0.2, 0.6)),
        change_points=points if by_priority else None,
        # A step of a day passes 17,280 slots of a 5 s trigger; few of a slow one.
        intervals=("11m", "7m", "20m") if far else ("1s", "2s", "3s"),
        caps=chance_of(seed, "caps").choice(((None, None), (1, None), (2, None), (None, 2), (1, 2))),
        longest_step_seconds=_DAY_SECONDS if far else _SHORT_STEP_SECONDS,
    )


def chance_of(seed: int, whose: str) -> random.Random:
    """Give the chance of one part of a seed, whatever the other parts draw."""
    return random.Random(f"{seed}/{whose}")


class Tape:
    """The numbers of each step, and which steps may deviate from the plain order (None: all)."""

    def __init__(self, seed: int, kept: Collection[int] | None) -> None:
        """Begin at the first step."""
        self._chance = chance_of(seed, "steps")
        self._numbers: list[tuple[float, float, float, float]] = []
        self._kept = None if kept is None else frozenset(kept)
        self.deviations: list[int] = []
        """The steps that did deviate."""

    def at(self, step: int) -> tuple[float, float, float, float]:
        """Give the four numbers of a step, each in [0, 1)."""
        draw, numbers = self._chance.random, self._numbers
        while len(numbers) <= step:
            numbers.append((draw(), draw(), draw(), draw()))
        return numbers[step]

    def allows(self, step: int) -> bool:
        """Tell whether a step may deviate."""
        return self._kept is None or step in self._kept

    def note(self, step: int) -> None:
        """Note that a step deviated."""
        if not self.deviations or self.deviations[-1] != step:
            self.deviations.append(step)


def between_leases(fraction: float) -> int:
    """Turn a number in [0, 1) into 0.5 to 4 leases, in microseconds."""
    return round(LEASE_US * (0.5 + 3.5 * fraction))


def wall_step_us(fraction: float, longest_seconds: int) -> int:
    """Turn a number in [0, 1) into a step of at least a second, back or ahead, small ones as likely as large ones."""
    sign, size = (-1, 2 * fraction) if fraction < 0.5 else (1, 2 * fraction - 1)
    return sign * round(SECOND_US * math.exp(size * math.log(longest_seconds)))
