"""Time that is turned, not waited for."""

import threading
from dataclasses import dataclass

from reconciler.clock import SECOND_US

START_US = 1_767_225_600 * SECOND_US
"""2026-01-01T00:00:00Z"""


@dataclass
class TurnedClock:
    """A clock that stands still until a test turns it."""

    at_us: int = START_US
    elapsed_seconds: float = 1000.0

    def now_us(self) -> int:
        return self.at_us

    def elapsed(self) -> float:
        return self.elapsed_seconds

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.turn(seconds)
        return stop.is_set()

    def turn(self, seconds: float) -> None:
        """Let wall and elapsed time pass together."""
        self.at_us += round(seconds * SECOND_US)
        self.elapsed_seconds += seconds
