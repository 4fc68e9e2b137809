"""Waiting for something real, with a deadline."""

import threading
from collections.abc import Callable

from reconciler.clock import SystemClock


def until(happened: Callable[[], object], *, seconds: float = 10.0) -> float:
    """Look until `happened()` is true; give how long that took. Fails after `seconds`."""
    clock, never = SystemClock(), threading.Event()
    started = clock.elapsed()
    while not happened():
        waited = clock.elapsed() - started
        assert waited < seconds, f"it did not happen within {seconds} s"
        clock.wait(never, 0.005)
    return clock.elapsed() - started
