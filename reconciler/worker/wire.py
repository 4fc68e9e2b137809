"""What a worker and its guard tell each other, and the socket they say it on.

Messages are frozen dataclasses. On the stream each is a length of four bytes and a JSON object; file descriptors travel
beside them (SCM_RIGHTS) in the order of the messages that name them. Sending never blocks: a worker that is stopped
must not stall its guard, and a guard that is stopped must not stall its worker.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import json
import os
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.model.lease import Session

CLAIM_MARKER: Final = "RECONCILER_CLAIM"
"""The environment variable that marks every process of a job, as `<run id>.<fence>`."""
LEASE_OVER: Final = "the lease is over"
"""Why a job was stopped, or not started, when the lease it belongs to could not be kept."""


@dataclass(frozen=True, slots=True)
class Setup:
    """First message to the guard: where the store is and what the timings are. Never on a command line (secrets)."""

    store_url: str = field(repr=False)
    lease_seconds: float
    heartbeat_seconds: float
    margin_seconds: float
    scratch: str
    """The folder that holds the private folders of the jobs; removed by the guard when its worker is gone."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """A session to keep alive. `asked_at` is CLOCK_BOOTTIME from before the store was asked for it."""

    session: Session
    asked_at: float


@dataclass(frozen=True, slots=True)
class Alive:
    """The worker's loop is turning."""


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a job under the session `epoch`. Descriptors beside it: its output, its errors, its input if any."""

    job: str
    epoch: int
    program: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    cwd: str
    timeout_seconds: float
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    """End a job: TERM, and KILL after `grace_seconds` (0: KILL at once)."""

    job: str
    reason: str
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Leave:
    """The worker ends in order and has ended its session itself; kill what is left and exit."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """The job runs; `pid` leads its session and process group."""

    job: str
    pid: int


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    """The job could not be started; `error` is fit for a person."""

    job: str
    error: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The job is over, with its whole tree.

    Exactly one of `exit_code` and `signal` is set, unless the root process could not be killed. `stopped` is the reason
    why the guard ended it, if it did. `leftovers` counts processes that outlived the root process and were killed;
    `survivors` those that did not die (a broken disk, another user's process).
    """

    job: str
    exit_code: int | None
    signal: int | None
    timed_out: bool
    stopped: str | None
    signals_sent: Sequence[str]
    leftovers: int
    survivors: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """The session's lease was renewed, on a request sent at `asked_at` (CLOCK_BOOTTIME), answered `seconds` later."""

    epoch: int
    asked_at: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RenewalFailed:
    """The store could not be asked; the guard goes on trying until the lease's local deadline."""

    epoch: int
    error: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The session's lease is over; every job under it has been killed or is being killed."""

    epoch: int
    reason: str


ToGuard = Setup | Adopt | Alive | Spawn | Stop | Leave
ToWorker = Spawned | SpawnFailed | Exited | Renewed | RenewalFailed | Lost
Message = ToGuard | ToWorker

_KINDS: Final[Mapping[str, type[Message]]] = {
    kind.__name__: kind
    for kind in (
        *(Setup, Adopt, Alive, Spawn, Stop, Leave),
        *(Spawned, SpawnFailed, Exited, Renewed, RenewalFailed, Lost),
    )
}
_HEADER_BYTES: Final = 4
_READ_BYTES: Final = 1 << 16
_MAX_DESCRIPTORS: Final = 64
_CLOSE_ON_EXEC: Final = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Received:
    """A message and the descriptors that came with it; whoever takes it closes them."""

    message: Message
    descriptors: Sequence[int]


class Waker:
    """Ends a wait on descriptors, from any thread or signal handler."""

    def __init__(self) -> None:
        self._woken, self.signal_end = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self.signal_end, False)

    def fileno(self) -> int:
        """Give the descriptor to wait on."""
        return self._woken

    def wake(self) -> None:
        """End the wait that goes on, or the next one."""
        with contextlib.suppress(OSError):  # full: it is awake; closed: nobody waits any more
            os.write(self.signal_end, b"!")

    def clear(self) -> None:
        """Take note of having been woken."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass

    def close(self) -> None:
        """Close both ends."""
        os.close(self._woken)
        os.close(self.signal_end)


class Channel:
    """One end of the socket between worker and guard."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(0)
        end.set_inheritable(False)  # a job that held this end would hide that the other side is gone
        self._end = end
        self._unsent: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._unread = bytearray()
        self._descriptors: deque[int] = deque()
        self.is_open = True

    def fileno(self) -> int:
        """Give the descriptor to wait on."""
        return self._end.fileno()

    @property
    def unsent(self) -> int:
        """How many messages wait for the other side to read."""
        return len(self._unsent)

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send `message`, now or as soon as there is room. The descriptors are the channel's from here on."""
        self._unsent.append((memoryview(_encode(message, len(descriptors))), descriptors))
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        while self._unsent and self.is_open:
            data, descriptors = self._unsent[0]
            beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            try:
                sent = self._end.sendmsg([data], beside)
            except BlockingIOError:
                return
            except OSError:
                # The other side is gone. What it said last may still be there to read: receive() finds the end.
                self._drop_unsent()
                return
            _close(descriptors)
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = (data[sent:], ())

    def receive(self) -> list[Received]:
        """Give the messages that have arrived; `is_open` turns False when the other side is gone."""
        while self.is_open:
            try:
                data, beside, _, _ = self._end.recvmsg(
                    _READ_BYTES, socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize), _CLOSE_ON_EXEC
                )
            except BlockingIOError:
                break
            except OSError:
                data, beside = b"", []
            for _, _, packed in beside:
                self._descriptors.extend(array.array("i", packed))
            if not data:
                self.is_open = False
            self._unread += data
        return self._complete()

    def close(self) -> None:
        """Close this end and every descriptor still in it."""
        self.is_open = False
        self._drop_unsent()
        _close(self._descriptors)
        self._descriptors.clear()
        self._end.close()

    def _complete(self) -> list[Received]:
        arrived = []
        while len(self._unread) >= _HEADER_BYTES:
            end = _HEADER_BYTES + int.from_bytes(self._unread[:_HEADER_BYTES])
            if len(self._unread) < end:
                break
            fields = json.loads(self._unread[_HEADER_BYTES:end])
            del self._unread[:end]
            descriptors = [self._descriptors.popleft() for _ in range(fields.pop("descriptors"))]
            arrived.append(Received(_decode(fields), descriptors))
        return arrived

    def _drop_unsent(self) -> None:
        for _, descriptors in self._unsent:
            _close(descriptors)
        self._unsent.clear()


def _encode(message: Message, descriptors: int) -> bytes:
    fields = dataclasses.asdict(message)
    body = json.dumps({"is": type(message).__name__, "descriptors": descriptors, **fields}).encode()
    return len(body).to_bytes(_HEADER_BYTES) + body


def _decode(fields: dict[str, Any]) -> Message:
    kind = _KINDS[str(fields.pop("is"))]
    if kind is Adopt:
        fields["session"] = Session(**fields["session"])
    message: Message = kind(**fields)
    return message


def _close(descriptors: Sequence[int] | deque[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
