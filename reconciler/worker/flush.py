"""Writing results back: whatever has ended while one write is under way goes into the next (natural group commit).

Laws: a result is written under the session and fence of its claim, never another (I3); one that is refused is told and
dropped; one that cannot be written for now is kept, and a result that the store cannot take never holds up the others.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.clock import Clock
from reconciler.errors import SessionLostError, StoreUnavailableError
from reconciler.model.lease import Session
from reconciler.model.run import AttemptOutcome, Outcome
from reconciler.telemetry import emit
from reconciler.worker.events import FencedOut, StepFailed, StoreFailed

_MOST_AT_ONCE: Final = 200
_MOST_TEXT_AT_ONCE: Final = 4 * 1024 * 1024
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_PUT_OFF_SECONDS: Final = 1.0

Finish = Callable[[Session, Sequence[Outcome]], set[int]]
"""Writes outcomes in one transaction and gives the runs whose outcome was accepted."""


@dataclass(frozen=True, slots=True)
class _Result:
    session: Session
    outcome: Outcome


class Flusher:
    """One thread that writes results."""

    def __init__(self, node: str, finish: Finish, *, clock: Clock, wake: Callable[[], None]) -> None:
        self.lost: queue.SimpleQueue[Session] = queue.SimpleQueue()
        """Sessions of which the store said that they are over."""
        self._node = node
        self._finish = finish
        self._clock = clock
        self._wake = wake
        self._results: queue.SimpleQueue[_Result | None] = queue.SimpleQueue()
        self._unwritten = 0
        self._counting = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether everything that was put has been written or refused."""
        return self._unwritten == 0

    def put(self, session: Session, outcome: Outcome) -> None:
        """Have a result written as soon as possible."""
        with self._counting:
            self._unwritten += 1
        self._results.put(_Result(session, outcome))

    def close(self) -> None:
        """Stop; what is not written by now is left to the lease."""
        self._stopping.set()
        self._results.put(None)
        self._thread.join(_LONGEST_PAUSE_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            first = self._results.get()
            if first is not None:
                self._write(first.session, self._with_companions(first))

    def _with_companions(self, first: _Result) -> list[Outcome]:
        """Take what else has ended by now under the same session."""
        batch, text = [first.outcome], len(first.outcome.output)
        while len(batch) < _MOST_AT_ONCE and text < _MOST_TEXT_AT_ONCE and not self._results.empty():
            result = self._results.get()
            if result is None or result.session != first.session:
                self._results.put(result)
                break
            batch.append(result.outcome)
            text += len(result.outcome.output)
        return batch

    def _write(self, session: Session, batch: Sequence[Outcome]) -> None:
        """Write a batch; repeats while the store is away, and splits it when the store chokes on it."""
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            try:
                accepted = self._finish(session, batch)
            except SessionLostError:
                self.lost.put(session)
                accepted = set()
            except StoreUnavailableError as fault:
                emit(StoreFailed(self._node, "finish", str(fault)))
                self._clock.wait(self._stopping, pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            except Exception as fault:  # noqa: BLE001 - one result that cannot be written must not stop the others
                self._isolate(session, batch, fault)
                return
            self._settle(batch, accepted)
            return

    def _isolate(self, session: Session, batch: Sequence[Outcome], fault: Exception) -> None:
        """Write each result alone; one that still fails is put off, and tried again without its text."""
        emit(StepFailed(self._node, "finish", f"{type(fault).__name__}: {fault}"))
        if len(batch) > 1:
            for outcome in batch:
                self._write(session, [outcome])
            return
        error = f"the result could not be stored ({type(fault).__name__})"
        bare = dataclasses.replace(batch[0], error=error, output="")
        self._clock.wait(self._stopping, _PUT_OFF_SECONDS)
        self._results.put(_Result(session, bare))

    def _settle(self, batch: Sequence[Outcome], accepted: set[int]) -> None:
        for outcome in batch:
            if outcome.run_id not in accepted:
                operation = "hand_back" if outcome.result is AttemptOutcome.HANDED_BACK else "finish"
                emit(FencedOut(self._node, outcome.run_id, outcome.fence, operation))
        with self._counting:
            self._unwritten -= len(batch)
        self._wake()
