"""What jobs print: always read, kept within bounds, and shown so that nothing in it can do harm.

Law: a job never waits for us to read, however much it prints, and what is kept never exceeds `HEAD_BYTES + TAIL_BYTES`.
Bytes that are no UTF-8 become replacement characters; NUL, escapes and other control characters are shown as escapes,
since PostgreSQL stores no NUL and terminals obey the rest.
"""

from __future__ import annotations

import os
import queue
import selectors
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from reconciler.worker.wire import Waker

HEAD_BYTES: Final = 32 * 1024
TAIL_BYTES: Final = 32 * 1024
_READ_BYTES: Final = 1 << 16
_CONTINUATION: Final = range(0x80, 0xC0)
_LONGEST_CHARACTER: Final = 4
_SHOWN: Final = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\n\t"},
    **{code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)},
}
"""Control characters, and halves of surrogate pairs, which no encoding takes."""


def clean(raw: bytes) -> str:
    """Turn bytes of a job into text that any store, page or terminal can take."""
    return show_controls(raw.decode("utf-8", errors="replace"))


def show_controls(text: str) -> str:
    """Show control characters as escapes; line ends become newlines."""
    return text.replace("\r\n", "\n").translate(_SHOWN)


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
        head = _without_broken_end(bytes(self._head))
        whole_tail = _without_broken_start(tail)
        left_out += len(self._head) - len(head) + len(tail) - len(whole_tail)
        return f"{clean(head)}\n[reconciler: {left_out} bytes left out]\n{clean(whole_tail)}"


class Stream:
    """The output of one job."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.captured = Captured()
        self._ended = threading.Event()

    @property
    def has_ended(self) -> bool:
        """Whether nobody reads from it any more: all has been read, or it was given up."""
        return self._ended.is_set()

    def read(self) -> bool:
        """Read what is there; False at the end."""
        try:
            chunk = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.captured.add(chunk)
        return bool(chunk)

    def finish(self) -> None:
        """Close our end."""
        if not self.has_ended:
            os.close(self.descriptor)
            self._ended.set()


class Reader:
    """One thread that reads the output of every job of this worker, and wakes the worker when one has ended."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake_worker = wake
        self._selector = selectors.DefaultSelector()
        self._waker = Waker()
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._opened: queue.SimpleQueue[Stream] = queue.SimpleQueue()
        self._given_up: queue.SimpleQueue[Stream] = queue.SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def open(self) -> tuple[Stream, int]:
        """Give a stream to read from, and the descriptor for the job to write to."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        stream = Stream(ours)
        self._opened.put(stream)
        self._waker.wake()
        return stream, theirs

    def give_up(self, stream: Stream) -> None:
        """Read no further: something that is not the job any more holds the other end."""
        self._given_up.put(stream)
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
                if isinstance(key.data, Stream) and not key.data.read():
                    self._end(key.data)
            self._waker.clear()
            self._take_changes()
        self._take_changes()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, Stream):
                self._end(key.data)

    def _take_changes(self) -> None:
        while not self._opened.empty():
            stream = self._opened.get()
            self._selector.register(stream.descriptor, selectors.EVENT_READ, stream)
        while not self._given_up.empty():
            stream = self._given_up.get()
            if not stream.has_ended:
                self._end(stream)

    def _end(self, stream: Stream) -> None:
        self._selector.unregister(stream.descriptor)
        stream.finish()
        self._wake_worker()


def _without_broken_end(raw: bytes) -> bytes:
    """Drop the beginning of a character whose rest was left out."""
    for back in range(1, min(_LONGEST_CHARACTER, len(raw)) + 1):
        lead = raw[-back]
        if lead in _CONTINUATION:
            continue
        length = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else _LONGEST_CHARACTER  # noqa: PLR2004
        return raw[:-back] if length > back else raw
    return raw


def _without_broken_start(raw: bytes) -> bytes:
    """Drop the rest of a character whose beginning was left out."""
    broken = 0
    while broken < min(_LONGEST_CHARACTER - 1, len(raw)) and raw[broken] in _CONTINUATION:
        broken += 1
    return raw[broken:]
