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
from reconciler.model.run import AttemptOutcome, Claim, Outcome
from reconciler.worker.execute import Prepared, name_of
from reconciler.worker.output import Reader, Stream, show_controls
from reconciler.worker.wire import Exited

CANCELLED: Final = "someone asked to cancel the run"
"""The one reason to stop a run that makes it Cancelled; stopped for any other, it is handed back."""
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
    stream: Stream | None = None
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
        return self.stream is not None


class HeldRuns:
    """Everything this worker has claimed and not yet concluded."""

    def __init__(self, scratch: Path, reader: Reader, *, clock: Clock) -> None:
        self._scratch = scratch
        self._reader = reader
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
        held.stream, output = self._reader.open()
        return [output, *stdin]

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
        if held.stream is not None and not held.stream.has_ended:
            self._reader.give_up(held.stream)
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
        )

    def _has_been_read(self, held: Held) -> bool:
        if held.stream is None or held.stream.has_ended:
            return True
        if not held.given_up and self._clock.elapsed() >= held.exited_at + _OUTPUT_PATIENCE_SECONDS:
            held.given_up = True
            self._reader.give_up(held.stream)
        return False


def judged(how: Exited) -> tuple[AttemptOutcome, int | None, str | None]:
    """Decide what an ended job amounts to: its outcome, exit code, and what went wrong in words."""
    ended = _ended(how)
    survivors = f"; {how.survivors} of its processes could not be killed" if how.survivors else ""
    if how.timed_out:
        error = f"the run took longer than its timeout and got {' and then '.join(how.signals_sent)}; it {ended}"
        return AttemptOutcome.TIMED_OUT, how.exit_code, error + survivors
    if how.stopped is not None:
        result = AttemptOutcome.CANCELLED if how.stopped == CANCELLED else AttemptOutcome.HANDED_BACK
        return result, how.exit_code, how.stopped + survivors
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
    text = held.stream.captured.text() if held.stream is not None else ""
    if held.exited is None or not held.exited.leftovers:
        return text
    line_end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{line_end}[reconciler: {held.exited.leftovers} left-over processes were killed]\n"


def _readable(content: bytes) -> int:
    """Give a descriptor to read `content` from, whatever its size; nothing is left on disk."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())
