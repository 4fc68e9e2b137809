"""The thread that hears when something became claimable, so that an idle worker need not wait for its next poll."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Final

from reconciler.store.database import Database
from reconciler.store.hints import Hints

_TURN_SECONDS: Final = 0.5
_AFTER_FAULT_SECONDS: Final = 5.0
"""Whatever is wrong with hints, polling goes on; there is no hurry to hear again."""


class Hinting:
    """Listens while the worker is idle; `take` says whether there was a hint since it was last asked."""

    def __init__(self, database: Database, *, wake: Callable[[], None]) -> None:
        self._database = database
        self._wake = wake
        self._listening = threading.Event()
        self._hinted = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hints", daemon=True)
        self._thread.start()

    def listen(self) -> None:
        """Listen from now on, until a hint comes: nothing was claimable."""
        self._listening.set()

    def take(self) -> bool:
        """Tell whether a hint came."""
        hinted = self._hinted.is_set()
        self._hinted.clear()
        return hinted

    def close(self) -> None:
        """Stop."""
        self._stopping.set()
        self._listening.set()
        self._thread.join(2 * _TURN_SECONDS)

    def _run(self) -> None:
        hints: Hints | None = None
        while not self._stopping.is_set():
            if not self._listening.wait(_TURN_SECONDS):
                continue
            try:
                hints = hints or self._database.hints()
                if hints.wait(_TURN_SECONDS):
                    self._listening.clear()
                    self._hinted.set()
                    self._wake()
            except Exception:  # noqa: BLE001 - the store is away, or knows no hints: others tell of that, and polling goes on
                _close(hints)
                hints = None
                self._stopping.wait(_AFTER_FAULT_SECONDS)
        _close(hints)


def _close(hints: Hints | None) -> None:
    with contextlib.suppress(Exception):
        if hints is not None:
            hints.close()
