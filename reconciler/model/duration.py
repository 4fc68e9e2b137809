"""Durations as people write them: a whole number and a unit."""

from __future__ import annotations

from typing import Final

from reconciler.clock import SECOND_US

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_DIGITS: Final = {"s": 7, "m": 7, "h": 7, "d": 5}
"""The schemas say the same. More days would lead past the year 9999, where no instant can be written."""


def parse_duration(text: str) -> int:
    """Turn `30s`, `15m`, `6h` or `7d` into microseconds. Raises ValueError for anything else, zero included."""
    digits, unit = text[:-1], text[-1:]
    if unit not in _UNIT_SECONDS or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text!r} is no duration: write a whole number and s, m, h or d, like 30s or 15m")
    if len(digits) > _MOST_DIGITS[unit]:
        raise ValueError(f"{text!r} is too long: write at most {'9' * _MOST_DIGITS[unit]}{unit}")
    amount = int(digits)
    if amount == 0:
        raise ValueError(f"{text!r} is no duration: it must be longer than zero")
    return amount * _UNIT_SECONDS[unit] * SECOND_US
