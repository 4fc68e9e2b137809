"""Writing results back: whatever has ended while one write is under way goes into the next (natural group commit).

Laws: a result is written under the session and fence of its claim, never another (I3); one that is refused is told and
dropped; one that cannot be written for now is kept; whether one was written whose answer was lost is read back, never
guessed (R4); and a result that the store cannot take never holds up the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.clock import SECOND_US, Clock
from reconciler.errors import SessionLostError, StoreUnavailableError
from reconciler.model.lease import Session
from reconciler.model.run import AttemptOutcome, Outcome, RunState
from reconciler.telemetry import Event, emit
from reconciler.worker.events import FencedOut, RunRecorded, StepFailed, StoreFailed
from reconciler.worker.lines import RunLog
from reconciler.worker.logs import MOST_BYTES, MOST_LINES, Logs

_MOST_AT_ONCE: Final = 200
_MOST_TEXT_AT_ONCE: Final = 4 * 1024 * 1024
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 1.0
"""Short: what is refused after an outage is how a node hears that its lease is over, and may begin anew."""
_CLOSE_WITHIN_SECONDS: Final = 5.0
_PUT_OFF_SECONDS: Final = 1.0

_GIVEN_BACK: Final = frozenset({AttemptOutcome.HANDED_BACK, AttemptOutcome.LOST_LEASE})

Finish = Callable[[Session, Sequence[Outcome]], Mapping[int, RunState]]
"""Writes outcomes in one transaction, or reads them back; gives what became of the runs whose outcome was accepted."""


@dataclass(frozen=True, slots=True)
class _Result:
    session: Session
    outcome: Outcome
    log: RunLog | None = None

    @property
    def lines(self) -> int:
        """How many lines of its log go with it."""
        return self.log.waiting if self.log else 0

    @property
    def is_short(self) -> bool:
        """Whether all of them can."""
        return self.log is None or (self.log.waiting <= MOST_LINES and self.log.waiting_bytes <= MOST_BYTES)

    @property
    def text(self) -> int:
        """How much text is written with it."""
        return len(self.outcome.output) + (self.log.waiting_bytes if self.log else 0)

    def with_lines(self) -> Outcome:
        """Give the outcome with the lines of its log that are not yet written."""
        if not self.log or not self.log.waiting:
            return self.outcome
        return dataclasses.replace(self.outcome, log=self.log.take(MOST_LINES, MOST_BYTES))


class Flusher:
    """One thread that writes results, and in between the logs of the jobs that run."""

    def __init__(
        self, node: str, finish: Finish, *, read_back: Finish, logs: Logs, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self.lost: queue.SimpleQueue[Session] = queue.SimpleQueue()
        """Sessions of which the store said that they are over."""
        self._node = node
        self._finish = finish
        self._read_back = read_back
        self._logs = logs
        self._clock = clock
        self._wake = wake
        self._results: queue.SimpleQueue[_Result | None] = queue.SimpleQueue()
        self._unwritten: set[tuple[int, int]] = set()
        self._counting = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether everything that was put has been written or refused."""
        return not self._unwritten

    @property
    def unwritten(self) -> set[tuple[int, int]]:
        """Run and fence of every result that is not yet written or refused."""
        with self._counting:
            return set(self._unwritten)

    def put(self, session: Session, outcome: Outcome, log: RunLog | None = None) -> None:
        """Have a result written as soon as possible, with the end of its log, to which nothing is added any more."""
        with self._counting:
            self._unwritten.add((outcome.run_id, outcome.fence))
        self._results.put(_Result(session, outcome, log))

    def close(self) -> None:
        """Stop; what is not written by now is left to the lease."""
        self._stopping.set()
        self._results.put(None)
        self._thread.join(_CLOSE_WITHIN_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            first = self._next()
            if first is not None and first.is_short:
                self._write(first.session, self._with_companions(first))
            elif first is not None:
                self._shorten(first)
            self._note_lost(self._logs.write_due(self._stopping))

    def _next(self) -> _Result | None:
        """Wait for a result, or until lines are to be written."""
        with contextlib.suppress(queue.Empty):
            return self._results.get(timeout=self._logs.wait_seconds)
        return None

    def _shorten(self, result: _Result) -> None:
        """Write some lines of a log that is too long to go with its result, which is put last."""
        if result.log is not None:
            self._note_lost(self._logs.write_beginning(result.log, self._stopping))
        self._results.put(result)

    def _with_companions(self, first: _Result) -> list[Outcome]:
        """Take what else has ended by now under the same session."""
        batch, lines, text = [first], first.lines, first.text
        while (
            len(batch) < _MOST_AT_ONCE
            and text < _MOST_TEXT_AT_ONCE
            and lines < MOST_LINES
            and not self._results.empty()
        ):
            result = self._results.get()
            if result is None or result.session != first.session or not result.is_short:
                self._results.put(result)
                break
            batch.append(result)
            lines += result.lines
            text += result.text
        return [each.with_lines() for each in batch]

    def _note_lost(self, session: Session | None) -> None:
        if session is not None:
            self.lost.put(session)
            self._wake()

    def _write(self, session: Session, batch: Sequence[Outcome]) -> None:
        """Write a batch; repeats while the store is away, and splits it when the store chokes on it."""
        pause, is_unsure = _FIRST_PAUSE_SECONDS, False
        while not self._stopping.is_set():
            try:
                accepted = self._accepted(session, batch, is_unsure=is_unsure)
            except StoreUnavailableError as fault:
                is_unsure = True
                emit(StoreFailed(self._node, "finish", str(fault)))
                self._clock.wait(self._stopping, pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            except Exception as fault:  # noqa: BLE001 - one result that cannot be written must not stop the others
                self._isolate(session, batch, fault)
                return
            self._settle(batch, accepted)
            return

    def _accepted(self, session: Session, batch: Sequence[Outcome], *, is_unsure: bool) -> Mapping[int, RunState]:
        """Write. A session that is over takes nothing new, but may have taken it before an answer was lost."""
        try:
            return self._finish(session, batch)
        except SessionLostError:
            self.lost.put(session)
            return self._read_back(session, batch) if is_unsure else {}

    def _isolate(self, session: Session, batch: Sequence[Outcome], fault: Exception) -> None:
        """Write each result alone; one that still fails is put off, and tried again without its text."""
        emit(StepFailed(self._node, "finish", f"{type(fault).__name__}: {fault}"))
        if len(batch) > 1:
            for outcome in batch:
                self._write(session, [outcome])
            return
        error = f"the result could not be stored ({type(fault).__name__})"
        bare = dataclasses.replace(batch[0], error=error, output="", log=())
        self._clock.wait(self._stopping, _PUT_OFF_SECONDS)
        self._results.put(_Result(session, bare))

    def _settle(self, batch: Sequence[Outcome], accepted: Mapping[int, RunState]) -> None:
        for outcome in batch:
            emit(self._told(outcome, accepted.get(outcome.run_id)))
        with self._counting:
            self._unwritten -= {(outcome.run_id, outcome.fence) for outcome in batch}
        self._wake()

    def _told(self, outcome: Outcome, state: RunState | None) -> Event:
        """Say what the store made of a result; None: it took none."""
        node, run_id, fence = self._node, outcome.run_id, outcome.fence
        if state is None:
            return FencedOut(node, run_id, fence, "hand_back" if outcome.result in _GIVEN_BACK else "finish")
        seconds = max(0, outcome.finished_us - outcome.started_us) / SECOND_US
        return RunRecorded(node, run_id, fence, outcome.definition, outcome.result, state, seconds)
