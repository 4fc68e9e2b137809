"""Watching a source: a hint that something changed, never the truth.

Events are lost, merged and absent: on a network share there are none, a queue overflows, and a path that is itself a
link which is swapped (a mounted ConfigMap, git-sync) sends no event at all to who watches the path. So its parent is
watched too, after a swap the new target is, and whatever is missed the next rescan finds.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from watchfiles import watch

from reconciler.clock import Clock
from reconciler.telemetry import Event, emit

_DEBOUNCE_MS: Final = 100
_STEP_MS: Final = 50
_STOP_WITHIN_MS: Final = 500
_TRY_AGAIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class WatchFailed(Event):
    """The source cannot be watched for events at the moment; rescans go on."""

    level: ClassVar[int] = logging.WARNING
    path: str
    error: str


class Watcher:
    """Calls `hint` soon after something changed below `path`, or the path itself did."""

    def __init__(self, path: Path, hint: Callable[[], None], *, clock: Clock) -> None:
        """Watch `path`; nothing runs before `start`."""
        self._path = Path(os.path.abspath(path))  # noqa: PTH100 - links stay as they are, `..` goes
        self._hint = hint
        self._clock = clock
        self._stop = threading.Event()
        self._moved = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(self._watch_links,), name="watch-links", daemon=True),
            threading.Thread(target=self._run, args=(self._watch_target,), name="watch-target", daemon=True),
        ]

    def start(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._moved.set()
        for thread in self._threads:
            thread.join()

    def _run(self, follow: Callable[[], None]) -> None:
        """Follow events until stopped; what cannot be watched now is tried again."""
        warned = False
        while not self._stop.is_set():
            try:
                follow()
                warned = False
            except Exception as fault:  # noqa: BLE001 - missing folder, no inotify left, …: rescans go on in any case
                if not warned:
                    emit(WatchFailed(str(self._path), f"{type(fault).__name__}: {fault}"))
                warned = True
                self._clock.wait(self._stop, _TRY_AGAIN_SECONDS)

    def _watch_links(self) -> None:
        """A swap of the path, or of a link on the way, shows in its parent only; the target is another one then."""
        swapped = {self._path, *(parent for parent in self._path.parents if parent.is_symlink())}
        for changes in watch(
            *{path.parent for path in swapped},
            recursive=False,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            stop_event=self._stop,
            rust_timeout=_STOP_WITHIN_MS,
        ):
            if any(Path(changed) in swapped for _, changed in changes):
                self._moved.set()
                self._hint()

    def _watch_target(self) -> None:
        self._moved.clear()
        for _ in watch(
            self._path.resolve(strict=True),
            recursive=True,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            stop_event=self._moved,
            rust_timeout=_STOP_WITHIN_MS,
        ):
            self._hint()
