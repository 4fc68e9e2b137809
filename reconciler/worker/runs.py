"""The runs a worker holds, each from its claim to its result.

Claimed -> started (the guard has it) -> exited (its tree is gone, its output may still be read) -> concluded (its
result is known and its slot is free).
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.clock import Clock
from reconciler.model.lease import Session
from reconciler.model.log import OutputStream
from reconciler.model.run import CANCEL_WANTED, AttemptOutcome, Claim, Outcome
from reconciler.worker.execute import Prepared, name_of
from reconciler.worker.lines import RunLog
from reconciler.worker.logs import Logs
from reconciler.worker.output import Output, Reader
from reconciler.worker.text import show_controls
from reconciler.worker.wire import LEASE_OVER, Exited

DRAINED: Final = "the node was drained before the run ended"
GUARD_DIED: Final = "the guard process died"
_STOPPED: Final = {CANCEL_WANTED: AttemptOutcome.CANCELLED, LEASE_OVER: AttemptOutcome.LOST_LEASE}
"""What a run that was started and then stopped amounts to, by the reason; stopped for any other, it is handed back."""
_MOST_ERROR: Final = 4000
_OUTPUT_PATIENCE_SECONDS: Final = 1.0
"""How long the output of a job whose tree is gone may stay open: something outside the tree got hold of it."""


@dataclass(slots=True)
class Held:
    """One run in this worker's hands."""

    claim: Claim
    session: Session
    definition: str = ""
    grace_seconds: float = 0.0
    folder: Path | None = None
    output: Output | None = None
    started_us: int = 0
    finished_us: int = 0
    exited: Exited | None = None
    exited_at: float = 0.0
    given_up: bool = False
    stopping_grace: float = math.inf
    """The shortest grace period the guard was asked to stop it with."""

    @property
    def name(self) -> str:
        """The job's name on the wire and in its marker."""
        return name_of(self.claim)

    @property
    def is_started(self) -> bool:
        """Whether the guard has been asked to start it."""
        return self.output is not None

    @property
    def log(self) -> RunLog | None:
        """Its lines."""
        return self.output.log if self.output else None


class HeldRuns:
    """Everything this worker has claimed and not yet concluded."""

    def __init__(self, scratch: Path, reader: Reader, logs: Logs, *, clock: Clock) -> None:
        self._scratch = scratch
        self._reader = reader
        self._logs = logs
        self._clock = clock
        self._held: dict[str, Held] = {}

    def __len__(self) -> int:
        """How many slots are taken."""
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        """Give them as they are now; the set may change meanwhile."""
        return iter(list(self._held.values()))

    def named(self, name: str) -> Held | None:
        """Find a run by its job's name."""
        return self._held.get(name)

    def take(self, session: Session, claims: Sequence[Claim]) -> None:
        """Hold what was claimed."""
        for claim in claims:
            held = Held(claim, session)
            self._held[held.name] = held

    def make_folder(self, held: Held) -> Path:
        """Make the job's private folder."""
        held.folder = held.folder or Path(tempfile.mkdtemp(prefix="run-", dir=self._scratch))
        return held.folder

    def start(self, held: Held, prepared: Prepared) -> list[int]:
        """Open the job's output and input; give the descriptors that go to the guard."""
        held.started_us = self._clock.now_us()
        held.grace_seconds = prepared.spawn.grace_seconds
        stdin = [] if prepared.stdin is None else [_readable(prepared.stdin)]
        held.output, outputs = self._reader.open(self._logs.open(held.claim, held.session))
        return [*outputs, *stdin]

    def exited(self, held: Held, how: Exited) -> None:
        """Note that the job's tree is gone."""
        held.exited, held.exited_at, held.finished_us = how, self._clock.elapsed(), self._clock.now_us()

    def concluded(self) -> list[tuple[Held, Outcome]]:
        """Give the runs that are over, output included, with their outcomes; they are held no more."""
        over = []
        for held in self:
            if held.exited is not None and self._has_been_read(held):
                result, exit_code, error = judged(held.exited)
                over.append((held, self.release(held, result, exit_code=exit_code, error=error)))
        return over

    def release(
        self, held: Held, result: AttemptOutcome, *, exit_code: int | None = None, error: str | None = None
    ) -> Outcome:
        """Hold a run no more, and give the outcome to report."""
        del self._held[held.name]
        if held.folder is not None:
            shutil.rmtree(held.folder, ignore_errors=True)
        if held.output is not None and not held.output.has_ended:
            self._reader.give_up(held.output)
        now_us = self._clock.now_us()
        return Outcome(
            run_id=held.claim.run_id,
            fence=held.claim.fence,
            attempt=held.claim.attempt,
            result=result,
            started_us=held.started_us or now_us,
            finished_us=held.finished_us or now_us,
            exit_code=exit_code,
            error=None if error is None else show_controls(error)[:_MOST_ERROR],
            output=_printed(held),
            definition=held.definition,
        )

    def _has_been_read(self, held: Held) -> bool:
        if held.output is None or held.output.has_ended:
            return True
        if not held.given_up and self._clock.elapsed() >= held.exited_at + _OUTPUT_PATIENCE_SECONDS:
            held.given_up = True
            self._reader.give_up(held.output)
        return False


def judged(how: Exited) -> tuple[AttemptOutcome, int | None, str | None]:
    """Decide what an ended job amounts to: its outcome, exit code, and what went wrong in words."""
    ended = _ended(how)
    survivors = f"; {how.survivors} of its processes could not be killed" if how.survivors else ""
    if how.timed_out:
        error = f"the run took longer than its timeout and got {' and then '.join(how.signals_sent)}; it {ended}"
        return AttemptOutcome.TIMED_OUT, how.exit_code, error + survivors
    if how.stopped is not None:
        return _STOPPED.get(how.stopped, AttemptOutcome.HANDED_BACK), how.exit_code, how.stopped + survivors
    if how.exit_code == 0:
        return AttemptOutcome.SUCCEEDED, 0, survivors.removeprefix("; ") or None
    return AttemptOutcome.FAILED, how.exit_code, f"the program {ended}{survivors}"


def _ended(how: Exited) -> str:
    if how.signal is not None:
        return f"was ended by {_signal_name(how.signal)}"
    return "did not end" if how.exit_code is None else f"ended with exit code {how.exit_code}"


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _printed(held: Held) -> str:
    """Give what the job printed; of processes that it left behind its log is told as well."""
    text = held.output.captured.text() if held.output is not None else ""
    if held.output is None or held.exited is None or not held.exited.leftovers:
        return text
    line_end = "" if not text or text.endswith("\n") else "\n"
    note = f"[reconciler: {held.exited.leftovers} left-over processes were killed]"
    held.output.log.note(OutputStream.STDERR, held.finished_us, note)
    return f"{text}{line_end}{note}\n"


def _readable(content: bytes) -> int:
    """Give a descriptor to read `content` from, whatever its size; nothing is left on disk."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())
