"""What jobs print: always read, from both streams, and kept within bounds.

Law: a job never waits for us to read, however much it prints, and what is kept never exceeds `HEAD_BYTES + TAIL_BYTES`
with the result, and the bounds of `reconciler.worker.lines` in its log.
"""

from __future__ import annotations

import os
import queue
import selectors
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from reconciler.clock import Clock
from reconciler.model.log import OutputStream
from reconciler.words import count
from reconciler.worker.lines import RunLog
from reconciler.worker.text import Lines, clean, without_broken_end, without_broken_start
from reconciler.worker.wire import Waker

HEAD_BYTES: Final = 32 * 1024
TAIL_BYTES: Final = 32 * 1024
_READ_BYTES: Final = 1 << 16


class Captured:
    """The beginning and the end of what a job printed."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        """Take in what was read."""
        room = HEAD_BYTES - len(self._head)
        self._head += chunk[:room]
        if rest := chunk[room:]:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= TAIL_BYTES:
            self._tail_bytes -= len(self._tail[0])
            self._left_out += len(self._tail.popleft())

    def text(self) -> str:
        """Give what is kept, cleaned; a line in the middle says how many bytes were left out."""
        tail = b"".join(self._tail)
        cut = max(0, len(tail) - TAIL_BYTES)
        left_out, tail = self._left_out + cut, tail[cut:]
        if not left_out:
            return clean(bytes(self._head) + tail)
        head = without_broken_end(bytes(self._head))
        whole_tail = without_broken_start(tail)
        left_out += len(self._head) - len(head) + len(tail) - len(whole_tail)
        return f"{clean(head)}\n[reconciler: {count(left_out, 'byte')} left out]\n{clean(whole_tail)}"


class Pipe:
    """Our end of one stream of a job."""

    def __init__(self, output: Output, stream: OutputStream, descriptor: int) -> None:
        self.output = output
        self.descriptor = descriptor
        self._stream = stream
        self._lines = Lines()

    def read(self, clock: Clock) -> bool:
        """Read what is there; False at the end."""
        try:
            chunk = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if chunk:
            self._pass_on(self._lines.add(chunk), clock)
        return bool(chunk)

    def close(self, clock: Clock) -> None:
        """Close our end; what was read of a line that has no end is a line too."""
        os.close(self.descriptor)
        self._pass_on(self._lines.end(), clock)

    def _pass_on(self, blocks: list[bytes], clock: Clock) -> None:
        for block in blocks:
            self.output.captured.add(block)
            self.output.log.add(self._stream, clock.now_us(), block)


class Output:
    """What one job prints, on both streams, in the order in which it is read."""

    def __init__(self, log: RunLog) -> None:
        self.log = log
        self.captured = Captured()
        self.pipes: list[Pipe] = []
        """Those that are still read."""
        self._ended = threading.Event()

    @property
    def has_ended(self) -> bool:
        """Whether nobody reads from it any more: all has been read, or it was given up."""
        return self._ended.is_set()

    def open(self) -> list[int]:
        """Make a pipe for each stream, and give the ends for the job to write to."""
        ends: list[int] = []
        try:
            for _ in OutputStream:
                ends.extend(os.pipe())
        except OSError:  # this process has too many files open
            for descriptor in ends:
                os.close(descriptor)
            raise
        for stream, reading in zip(OutputStream, ends[::2], strict=True):
            os.set_blocking(reading, False)
            self.pipes.append(Pipe(self, stream, reading))
        return ends[1::2]

    def end(self) -> None:
        """Nothing is read any more."""
        self.log.end()
        self._ended.set()


class Reader:
    """One thread that reads the output of every job of this worker, and wakes the worker when one has ended."""

    def __init__(self, wake: Callable[[], None], *, clock: Clock) -> None:
        self._wake_worker = wake
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._waker = Waker()
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._opened: queue.SimpleQueue[Output] = queue.SimpleQueue()
        self._given_up: queue.SimpleQueue[Output] = queue.SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def open(self, log: RunLog) -> tuple[Output, list[int]]:
        """Give an output to read, and the descriptors for the job to write to: stdout, stderr."""
        output = Output(log)
        theirs = output.open()
        self._opened.put(output)
        self._waker.wake()
        return output, theirs

    def give_up(self, output: Output) -> None:
        """Read no further: something that is not the job any more holds the other end."""
        self._given_up.put(output)
        self._waker.wake()

    def close(self) -> None:
        """Stop reading."""
        self._stopping = True
        self._waker.wake()
        self._thread.join()
        self._selector.close()
        self._waker.close()

    def _run(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select():
                if isinstance(key.data, Pipe) and not key.data.read(self._clock):
                    self._end(key.data)
            self._waker.clear()
            self._take_changes()
        self._take_changes()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, Pipe):
                self._end(key.data)

    def _take_changes(self) -> None:
        while not self._opened.empty():
            for pipe in self._opened.get().pipes:
                self._selector.register(pipe.descriptor, selectors.EVENT_READ, pipe)
        while not self._given_up.empty():
            for pipe in list(self._given_up.get().pipes):
                self._end(pipe)

    def _end(self, pipe: Pipe) -> None:
        self._selector.unregister(pipe.descriptor)
        pipe.close(self._clock)
        pipe.output.pipes.remove(pipe)
        if not pipe.output.pipes:
            pipe.output.end()
            self._wake_worker()
