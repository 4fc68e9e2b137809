"""The lines of a job's output, as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OutputStream(StrEnum):
    """Where a job wrote a line."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of one hold on a run: cleaned text without its line end.

    `seq` counts the lines of a hold in the order in which they were read, over both streams; `at_us` is the node's wall
    time when the line was read.
    """

    run_id: int
    fence: int
    seq: int
    stream: OutputStream
    at_us: int
    text: str
