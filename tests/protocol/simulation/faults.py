"""Which steps go wrong, and how: where each fault is possible, and how often it strikes there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.protocol.simulation.cast import Point, Thread
from tests.protocol.simulation.plan import Fault, Scenario

_ANYWHERE: Final = (Fault.STALL, Fault.FREEZE, Fault.CRASH, Fault.CUT, Fault.WALL_STEP)
_POSSIBLE: Final[Mapping[Point, frozenset[Fault]]] = {
    Point.WAIT: frozenset(_ANYWHERE),
    Point.BEGIN: frozenset({*_ANYWHERE, Fault.REFUSED}),
    Point.STATEMENT: frozenset({*_ANYWHERE, Fault.REFUSED}),
    Point.COMMIT: frozenset({*_ANYWHERE, Fault.REFUSED}),
    Point.COMMITTED: frozenset({*_ANYWHERE, Fault.LOST_ACK}),
}
_WEIGHT: Final[Mapping[Point, float]] = {
    Point.WAIT: 1.0,
    Point.BEGIN: 1.0,
    Point.STATEMENT: 1.0,
    Point.COMMIT: 8.0,
    Point.COMMITTED: 16.0,
}
_AT_COMMIT: Final = (Point.COMMIT, Point.COMMITTED)
_WEIGHT_OF_NOTHING: Final = 0.5
"""That of a COMMIT of a transaction that wrote nothing: whatever happens there teaches little."""
_OTHERS: Final = 4
"""How much less those are struck who are not this seed's victims."""


def fault_at(thread: Thread, scenario: Scenario, whether: float, which: float) -> tuple[Fault, float] | None:
    """Draw what strikes a thread whose turn it is, and how hard (in [0, 1)); None when nothing does."""
    if whether >= scenario.fault_rate * _weight(thread, scenario):
        return None
    possible = [fault for fault in scenario.faults if fault in _POSSIBLE[thread.point]]
    if not possible:
        return None
    if thread.point is Point.COMMITTED and Fault.LOST_ACK in possible:
        possible += [Fault.LOST_ACK] * len(possible)  # possible nowhere else
    at, size = divmod(which * len(possible), 1)
    return possible[int(at)], size


def _weight(thread: Thread, scenario: Scenario) -> float:
    is_idle = thread.point in _AT_COMMIT and not thread.wrote
    weight = _WEIGHT_OF_NOTHING if is_idle else _WEIGHT[thread.point]
    return weight if thread.name.startswith(scenario.victims) else weight / _OTHERS
