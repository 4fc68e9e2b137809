"""Durations as people write them: a whole number and a unit."""

from __future__ import annotations

from typing import Final

from reconciler.clock import SECOND_US

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_DURATION_DIGITS: Final = 7
"""More digits of days would not fit into 64 bits of microseconds."""


def parse_duration(text: str) -> int:
    """Turn `30s`, `15m`, `6h` or `7d` into microseconds. Raises ValueError for anything else, zero included."""
    digits, unit = text[:-1], text[-1:]
    if unit not in _UNIT_SECONDS or not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_DURATION_DIGITS:
        raise ValueError(f"{text!r} is no duration: write a whole number and s, m, h or d, like 30s or 15m")
    amount = int(digits)
    if amount == 0:
        raise ValueError(f"{text!r} is no duration: it must be longer than zero")
    return amount * _UNIT_SECONDS[unit] * SECOND_US
