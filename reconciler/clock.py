"""The ports through which the program meets time and chance; nothing else in the house reads either.

Instants are integers: microseconds since 1970-01-01T00:00:00Z (`_us`). Durations on the local machine are seconds of
CLOCK_BOOTTIME, which goes on while a laptop sleeps and is never stepped.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

SECOND_US: Final = 1_000_000
YEARS: Final = range(1900, 9999)
"""Years of the instants that people may write: beyond them one cannot be told in every zone."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Clock(Protocol):
    """Wall time for slots, elapsed time for local deadlines."""

    def now_us(self) -> int:
        """Wall time now, in microseconds since the epoch."""

    def elapsed(self) -> float:
        """Seconds of CLOCK_BOOTTIME: they only grow, and no clock step changes them."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until `stop` is set or `seconds` have passed; True when `stop` is set."""


class Chance(Protocol):
    """Randomness and ids: turned by tests and simulation."""

    def token(self) -> str:
        """Give an unguessable id of 128 bits, as 32 hexadecimal digits."""

    def fraction(self) -> float:
        """Give a number in [0, 1), for jitter; no secret depends on it."""


class SystemClock:
    """The machine's own clocks."""

    def now_us(self) -> int:
        """Wall time now, in microseconds since the epoch."""
        return time.time_ns() // 1000

    def elapsed(self) -> float:
        """Seconds of CLOCK_BOOTTIME (CLOCK_MONOTONIC where the kernel has no other)."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until `stop` is set or `seconds` have passed; True when `stop` is set."""
        return stop.wait(max(0.0, seconds))


class SystemChance:
    """The operating system's randomness."""

    def token(self) -> str:
        """Give an unguessable id of 128 bits, as 32 hexadecimal digits."""
        return secrets.token_hex(16)

    def fraction(self) -> float:
        """Give a number in [0, 1), for jitter."""
        return random.random()  # noqa: S311 - jitter is no secret


def pid() -> int:
    """Give the process id, for names people read."""
    return os.getpid()


def to_us(instant: datetime) -> int:
    """Turn an aware datetime into microseconds since the epoch, exactly. Raises ValueError for a naive one."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    return (instant - _EPOCH) // _MICROSECOND


def from_us(us: int) -> datetime:
    """Turn microseconds since the epoch into an aware UTC datetime, exactly."""
    return _EPOCH + timedelta(microseconds=us)


def iso(us: int) -> str:
    """Print an instant as people and JSON see it: UTC with Z, fractions only where there are any."""
    return from_us(us).isoformat().replace("+00:00", "Z")
