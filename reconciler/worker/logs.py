"""The logs of the jobs that run here, written in batches while they run.

Laws: lines are written under the session and fence of their claim, in order, by the thread that also writes the results
(so nothing of a log comes after its run's end); lines that are refused are told once and the log is closed (I3). Lines
wait at most about half a second.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final

from reconciler.clock import Clock
from reconciler.errors import SessionLostError, StoreUnavailableError
from reconciler.model.lease import Session
from reconciler.model.log import LogLine
from reconciler.model.run import Claim
from reconciler.store import logs
from reconciler.store.database import Database
from reconciler.telemetry import emit
from reconciler.worker.events import FencedOut, StepFailed, StoreFailed
from reconciler.worker.lines import Allowance, RunLog

MOST_LINES: Final = 1000
MOST_BYTES: Final = 1024 * 1024
_EVERY_SECONDS: Final = 0.5
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0

Append = Callable[[Session, Sequence[LogLine]], set[tuple[int, int]]]
"""Writes lines in one transaction and gives the (run, fence) whose lines were accepted."""


def appending(database: Database) -> Append:
    """Give what writes lines into a store."""
    return lambda session, lines: database.tx(lambda tx: logs.append(tx, session, lines))


class Logs:
    """The logs of a node: opened by its loop, written by the thread of its flusher."""

    def __init__(self, node: str, append: Append, *, clock: Clock) -> None:
        """Begin with none."""
        self._node = node
        self._append = append
        self._clock = clock
        self._allowance = Allowance(clock)
        self._announced: queue.SimpleQueue[RunLog] = queue.SimpleQueue()
        self._waiting: list[RunLog] = []
        self._next_at = clock.elapsed()

    def open(self, claim: Claim, session: Session) -> RunLog:
        """Begin the log of a hold."""
        return RunLog(claim, session, self._allowance, announce=self._announced.put)

    @property
    def wait_seconds(self) -> float:
        """How long until lines are to be written, if there are any."""
        return max(0.0, self._next_at - self._clock.elapsed())

    def write_due(self, stopping: threading.Event) -> Session | None:
        """Write a batch if it is time, and give the session if the store says that it is over."""
        if self.wait_seconds > 0:
            return None
        while not self._announced.empty():
            self._waiting.append(self._announced.get())
        batch = self._batch()
        self._next_at = self._clock.elapsed() + (0.0 if self._waiting else _EVERY_SECONDS)
        return self._write(batch, stopping)

    def write_beginning(self, log: RunLog, stopping: threading.Event) -> Session | None:
        """Write a batch of one log that is too long to be written with its result."""
        return self._write({log: log.take(MOST_LINES, MOST_BYTES)}, stopping)

    def _batch(self) -> dict[RunLog, list[LogLine]]:
        """Take lines of one session, of each log in turn; logs with more of them come last next time."""
        batch: dict[RunLog, list[LogLine]] = {}
        untouched, unfinished, lines, size = [], [], 0, 0
        for log in self._waiting:
            if log.session != self._waiting[0].session or lines >= MOST_LINES or size >= MOST_BYTES:
                untouched.append(log)
                continue
            taken = log.take(MOST_LINES - lines, MOST_BYTES - size)
            batch[log] = batch.get(log, []) + taken
            lines += len(taken)
            size += sum(len(line.text) for line in taken)
            if log.waiting:
                unfinished.append(log)
        self._waiting = untouched + unfinished
        return {log: taken for log, taken in batch.items() if taken}

    def _write(self, batch: dict[RunLog, list[LogLine]], stopping: threading.Event) -> Session | None:
        """Write lines; repeats while the store is away, and drops what the store chokes on."""
        pause = _FIRST_PAUSE_SECONDS
        session = next((log.session for log in batch), None)
        while session is not None and not stopping.is_set():
            try:
                self._settle(batch, self._append(session, [line for lines in batch.values() for line in lines]))
            except SessionLostError:
                self._settle(batch, set())
                return session
            except StoreUnavailableError as fault:
                emit(StoreFailed(self._node, "log", str(fault)))
                self._clock.wait(stopping, pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            except Exception as fault:  # noqa: BLE001 - lines that cannot be written must not stop the results
                reason = str(fault).partition("\n")[0]  # what follows may be the lines themselves
                emit(StepFailed(self._node, "log", f"{type(fault).__name__}: {reason}"))
                return self._isolate(batch, stopping)
            return None
        return None

    def _isolate(self, batch: dict[RunLog, list[LogLine]], stopping: threading.Event) -> Session | None:
        lost = None
        for log, lines in batch.items() if len(batch) > 1 else ():
            lost = self._write({log: lines}, stopping) or lost
        return lost

    def _settle(self, batch: dict[RunLog, list[LogLine]], accepted: set[tuple[int, int]]) -> None:
        for log in batch:
            if (log.claim.run_id, log.claim.fence) not in accepted:
                log.close()
                emit(FencedOut(self._node, log.claim.run_id, log.claim.fence, "log"))
