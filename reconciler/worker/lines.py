"""The log of one attempt: its beginning as it comes, its end when it is there, and a line that says what is missing.

Laws: of one attempt at most twice `PART_BYTES` and twice `PART_LINES` are kept, and one line that tells what was left
out between; all attempts of a node together add no more than its allowance, beyond `FREE_BYTES` at either end of each
log, which every attempt has. However much is printed, the work per byte stays small.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.clock import Clock
from reconciler.model.lease import Session
from reconciler.model.log import LogLine, OutputStream
from reconciler.model.run import Claim
from reconciler.words import count
from reconciler.worker.text import clean, each_line

PART_BYTES: Final = 512 * 1024
"""The beginning of a log is as long as this at most, and so is its end."""
PART_LINES: Final = 10_000
FREE_BYTES: Final = 8 * 1024
LINE_BYTES: Final = 64
"""What a line takes in the store beside its text; it counts in an allowance, so that empty lines are not free."""
BURST_BYTES: Final = 16 * 1024 * 1024
BYTES_PER_SECOND: Final = 1024 * 1024


class Allowance:
    """What the jobs of a node may add to the store: `BURST_BYTES` at once, and then `BYTES_PER_SECOND`."""

    def __init__(self, clock: Clock) -> None:
        """Begin with all of it."""
        self._clock = clock
        self._left = float(BURST_BYTES)
        self._counted_at = clock.elapsed()

    def take(self, size: int) -> bool:
        """Take so much; False when there is not enough."""
        if self._left < size:
            self._refill()
        if self._left < size:
            return False
        self._left -= size
        return True

    def take_some(self, size: int) -> int:
        """Take so much, or what there is."""
        self._refill()
        taken = min(size, int(self._left))
        self._left -= taken
        return taken

    def _refill(self) -> None:
        now = self._clock.elapsed()
        self._left = min(BURST_BYTES, self._left + (now - self._counted_at) * BYTES_PER_SECOND)
        self._counted_at = now


class RunLog:
    """The log of one hold on a run. The reader's thread fills it, the thread that writes takes from it."""

    def __init__(
        self, claim: Claim, session: Session, allowance: Allowance, *, announce: Callable[[RunLog], None]
    ) -> None:
        """Begin with no lines; `announce` is told when there are some again."""
        self.claim = claim
        self.session = session
        self._allowance = allowance
        self._announce = announce
        self._head: _Part | None = _Part(FREE_BYTES, allowance.take)
        self._tail = _Tail()
        self._ready: deque[LogLine] = deque()
        self._is_announced = False
        self._is_closed = False
        self._seq = 0
        # Two counts, so that each has one writer.
        self._bytes_put = self._bytes_taken = 0

    @property
    def waiting(self) -> int:
        """How many lines may be written now."""
        return len(self._ready)

    @property
    def waiting_bytes(self) -> int:
        """How long their text is."""
        return self._bytes_put - self._bytes_taken

    def add(self, stream: OutputStream, at_us: int, block: bytes) -> None:
        """Take in whole lines, read at `at_us`."""
        taken = 0
        if self._head is not None:
            taken = self._stream(self._head, stream, at_us, block)
        if taken < len(block) and not self._is_closed:
            self._head = None  # from here on only the end is kept, so that one place is missing, not many
            self._tail.add(stream, at_us, block[taken:])

    def end(self) -> None:
        """Nothing comes any more: what was kept of the end may be written too."""
        for stream, at_us, text in self._tail.kept(self._allowance):
            self.note(stream, at_us, text)
        self._tail = _Tail()

    def note(self, stream: OutputStream, at_us: int, text: str) -> None:
        """Add a line."""
        if self._is_closed:
            return
        self._seq += 1
        self._bytes_put += len(text)
        self._ready.append(LogLine(self.claim.run_id, self.claim.fence, self._seq, stream, at_us, text))
        if not self._is_announced:
            self._is_announced = True
            self._announce(self)

    def take(self, most_lines: int, most_bytes: int) -> list[LogLine]:
        """Give lines to be written, the oldest first; they are the caller's from here on."""
        self._is_announced = False
        lines: list[LogLine] = []
        until = self._bytes_taken + most_bytes
        while self._ready and len(lines) < most_lines and self._bytes_taken < until:
            lines.append(self._ready.popleft())
            self._bytes_taken += len(lines[-1].text)
        return lines

    def close(self) -> None:
        """Drop what waits and what still comes: the store does not take it."""
        self._is_closed = True
        self._ready.clear()
        self._bytes_taken = self._bytes_put

    def _stream(self, head: _Part, stream: OutputStream, at_us: int, block: bytes) -> int:
        """Let lines be written at once as long as there is room; give how many bytes of the block that were."""
        taken = 0
        for raw, size in each_line(block):
            text = clean(raw)
            if not head.takes(text):
                break
            self.note(stream, at_us, text)
            taken += size
        return taken


class _Part:
    """The room that is left in the beginning or the end of a log."""

    def __init__(self, free_bytes: int, allowed: Callable[[int], bool] = lambda _: False) -> None:
        """Begin empty; beyond `free_bytes` every line must be allowed."""
        self._free = free_bytes
        self._allowed = allowed
        self._bytes, self._lines = PART_BYTES, PART_LINES

    def takes(self, text: str) -> bool:
        """Put a line in, if there is room and it is allowed."""
        size = len(text.encode())
        cost = size + LINE_BYTES
        if size > self._bytes or self._lines == 0 or not (cost <= self._free or self._allowed(cost)):
            return False
        self._bytes -= size
        self._lines -= 1
        self._free = max(0, self._free - cost)
        return True


@dataclass(frozen=True, slots=True)
class _Block:
    stream: OutputStream
    at_us: int
    raw: bytes
    lines: int


class _Tail:
    """The newest blocks of lines; nobody looks into them before the end."""

    def __init__(self) -> None:
        self._blocks: deque[_Block] = deque()
        self._bytes = self._lines = 0
        self._bytes_seen = self._lines_seen = 0

    def add(self, stream: OutputStream, at_us: int, raw: bytes) -> None:
        """Keep a block, and let go of the oldest that cannot be needed any more."""
        block = _Block(stream, at_us, raw, raw.count(b"\n"))
        self._blocks.append(block)
        self._bytes += len(raw)
        self._lines += block.lines
        self._bytes_seen += len(raw)
        self._lines_seen += block.lines
        while self._bytes - len(self._blocks[0].raw) >= PART_BYTES or self._lines - self._blocks[0].lines >= PART_LINES:
            gone = self._blocks.popleft()
            self._bytes -= len(gone.raw)
            self._lines -= gone.lines

    def kept(self, allowance: Allowance) -> list[tuple[OutputStream, int, str]]:
        """Give the last lines that there is room for, after one that says what is missing, if anything is."""
        part = _Part(max(FREE_BYTES, allowance.take_some(self._bytes + self._lines * LINE_BYTES)))
        kept: list[tuple[OutputStream, int, str]] = []
        bytes_out, lines_out = self._bytes_seen, self._lines_seen
        for block, raw, size in self._newest_first():
            text = clean(raw)
            if not part.takes(text):
                break
            kept.append((block.stream, block.at_us, text))
            bytes_out -= size
            lines_out -= size > len(raw)
        if bytes_out:
            first = self._blocks[0]
            lines = f" in {count(lines_out, 'line')}" if lines_out else ""
            kept.append((first.stream, first.at_us, f"[reconciler: {count(bytes_out, 'byte')}{lines} left out]"))
        return kept[::-1]

    def _newest_first(self) -> Iterator[tuple[_Block, bytes, int]]:
        for block in reversed(self._blocks):
            for raw, size in reversed(list(each_line(block.raw))):
                yield block, raw, size
