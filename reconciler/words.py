"""Words that every floor says alike."""

from __future__ import annotations


def count(number: int, of: str) -> str:
    """Print a number of things: `1 run`, `2,000 runs`."""
    return f"{number:,} {of}" if number == 1 else f"{number:,} {of}s"
