"""`slow`: take its time, tell how far it is, and end in order when asked to; for trying out leases, drains and kills.

Payload (schemas/handlers/slow.schema.json): `duration`, `steps`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

from reconciler.clock import SystemClock
from reconciler.words import count
from reconciler.worker.handlers.files import DataFolder, say, seconds_in


class StoppedError(Exception):
    """Asked to stop before the end."""


def run(payload: Mapping[str, Any], _data: DataFolder, _environment: Mapping[str, str]) -> str:
    """Wait step by step. Raises StoppedError on SIGTERM."""
    seconds, steps = seconds_in("duration", payload.get("duration", "10s")), payload.get("steps", 10)
    stop, clock = threading.Event(), SystemClock()

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    for step in range(1, steps + 1):
        if clock.wait(stop, seconds / steps):
            raise StoppedError(f"stopped in step {step} of {steps}")
        say(f"step {step} of {steps}")
    return f"slept {seconds} s in {count(steps, 'step')}"
