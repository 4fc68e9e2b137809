"""The front of the worker: put its parts together, listen to signals, run until drained."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Final

from reconciler.clock import SystemChance, SystemClock
from reconciler.store.database import Database
from reconciler.store.dialect import Limits
from reconciler.worker.kin import end_with_parent
from reconciler.worker.loop import Worker
from reconciler.worker.options import WorkerOptions
from reconciler.worker.process import GuardProcess

_DONE: Final = 0
_INTERRUPTED: Final = 130


def run_worker(options: WorkerOptions, *, started: Callable[[Worker], None] | None = None) -> int:
    """Run a worker until SIGTERM or SIGINT drains it; give the exit code (130 when a second signal cut that short).

    `started` is called once its guard runs, and may start threads.

    Call it in the main thread of a process that starts no other processes: whatever runs below this one is taken for a
    job when the guard dies, and killed.
    """
    worker = open_worker(options, adopts_orphans=True)

    def drain(_number: int, _frame: FrameType | None) -> None:
        worker.drain()

    signal.set_wakeup_fd(worker.waker.signal_end, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, drain)
    if started is not None:
        started(worker)
    if options.ends_with is not None:
        end_with_parent(options.ends_with)
    try:
        return _DONE if worker.run() else _INTERRUPTED
    finally:
        signal.set_wakeup_fd(-1)


def open_worker(options: WorkerOptions, *, adopts_orphans: bool = False) -> Worker:
    """Make a worker on the machine's own clocks, its guard started; for a process that runs more than a worker.

    Without `adopts_orphans` the jobs of a guard that is killed outlive it. Call `run` (or `step` and `wait`) in a
    thread of your choice, and `drain` to end it.
    """
    clock = SystemClock()
    data = options.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    return Worker(
        options,
        database=Database.open(
            options.store_url, clock=clock, limits=Limits(answer_seconds=options.timings.answer_seconds)
        ),
        launch=partial(GuardProcess.start, clock=clock, adopts_orphans=adopts_orphans),
        clock=clock,
        chance=SystemChance(),
    )
