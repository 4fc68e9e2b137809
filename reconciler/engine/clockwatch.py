"""Whether the store's wall clock can be trusted: it is compared with a clock that nobody can set.

Law S4: when the two disagree by more than five seconds, nothing is materialised and no revision is applied until they
have agreed again for a while. A step that is taken back meanwhile has done nothing; one that stays is followed: slots
that it jumped over go by their misfire policy, and a step back brings none again, since no cursor ever goes back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from reconciler.clock import SECOND_US, Clock
from reconciler.model.lease import Term
from reconciler.telemetry import Event, emit

TOLERANCE_SECONDS: Final = 5.0
STEADY_SECONDS: Final = 5.0
"""How long the clocks must agree again."""
_SLEW: Final = 0.001
"""Clocks that are corrected slowly run apart by less than this part of the time; that is no step."""


@dataclass(frozen=True, slots=True)
class ClockStepped(Event):
    """The store's clock was set, by so many seconds; nothing is materialised until it is steady."""

    level: ClassVar[int] = logging.ERROR
    seconds: float


@dataclass(frozen=True, slots=True)
class ClockSteady(Event):
    """The clocks agree again, after the store's was set by so many seconds in all; materialising goes on."""

    level: ClassVar[int] = logging.WARNING
    seconds: float


@dataclass(frozen=True, slots=True)
class _Reading:
    wall_us: int
    elapsed: float
    unsure: float
    """By how many seconds the two may have been read apart."""


class ClockWatch:
    """Compares two clocks at each look. One thread looks; any may ask whether it holds."""

    def __init__(self, clock: Clock) -> None:
        """Begin with no reading: the first one agrees with itself."""
        self._clock = clock
        self._last: _Reading | None = None
        self._before: _Reading | None = None
        """The last reading before the clock was set, while it is not steady."""
        self._steady_at = 0.0
        self._is_held = False

    @property
    def is_held(self) -> bool:
        """Whether to wait."""
        return self._is_held

    def look(self, read_us: Callable[[], int]) -> tuple[int, int] | None:
        """Read the store's clock; give the instants that a step jumped over, once it is steady after one."""
        began_at = self._clock.elapsed()
        wall_us = read_us()
        answered_at = self._clock.elapsed()
        reading = _Reading(wall_us, (began_at + answered_at) / 2, (answered_at - began_at) / 2)
        if self._last is not None:
            self._compare(self._last, reading)
        self._last = reading
        if self._before is None or reading.elapsed < self._steady_at:
            return None
        return self._settle(self._before, reading)

    def begin(self, _term: Term) -> None:
        """Begin anew, as under a new term: what the clock did meanwhile was another leader's to watch."""
        self._last = self._before = None
        self._is_held = False

    def _compare(self, last: _Reading, reading: _Reading) -> None:
        passed = reading.elapsed - last.elapsed
        stepped = (reading.wall_us - last.wall_us) / SECOND_US - passed
        if abs(stepped) > TOLERANCE_SECONDS + _SLEW * passed + last.unsure + reading.unsure:
            self._before = self._before or last
            self._steady_at = reading.elapsed + STEADY_SECONDS
            self._is_held = True
            emit(ClockStepped(round(stepped, 3)))

    def _settle(self, before: _Reading, reading: _Reading) -> tuple[int, int] | None:
        """Say over which instants the clock jumped forward in all; none where it is back, or was set back."""
        expected_us = before.wall_us + round((reading.elapsed - before.elapsed) * SECOND_US)
        stepped_us = reading.wall_us - expected_us
        self._before, self._is_held = None, False
        emit(ClockSteady(round(stepped_us / SECOND_US, 3)))
        return (before.wall_us, before.wall_us + stepped_us) if stepped_us > TOLERANCE_SECONDS * SECOND_US else None
