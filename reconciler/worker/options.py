"""What a worker is told at its start, checked before anything runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import UsageError
from reconciler.model.lease import Timings
from reconciler.words import count
from reconciler.worker.allow import WORKER, Allow
from reconciler.worker.handlers import NAMES

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Every setting of a worker. `queues` None means all; `allow` admits programs for `command` (default: none)."""

    name: str
    store_url: str = field(repr=False)
    queues: Sequence[str] | None = None
    tags: Sequence[str] = ()
    slots: int = 4
    allow: Sequence[str] = ()
    data: Path = Path(".reconciler/data")
    drain_timeout_seconds: float = 30.0
    timings: Timings = field(default_factory=Timings)
    handlers: Sequence[str] = NAMES
    ends_with: int | None = None
    """The process that started this one; when it dies the worker drains and ends. None: the worker lives by itself."""
    command: str = WORKER
    """What a person starts to have this worker, for messages."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises UsageError."""
        if not self.name:
            raise UsageError("a worker needs a name (--node-id)")
        if self.slots < 1:
            raise UsageError(f"{count(self.slots, 'slot')}: a worker needs at least one")
        if self.drain_timeout_seconds < 0:
            raise UsageError("the drain timeout cannot be negative")
        if unknown := sorted(set(self.handlers) - set(NAMES)):
            raise UsageError(f"unknown handler {unknown[0]!r}; this worker has {', '.join(NAMES)}")
        self.programs()

    def programs(self) -> Allow:
        """The programs that `command` may start here."""
        return Allow.parse(self.allow, self.environment.get("PATH", _DEFAULT_PATH), self.command)

    @property
    def host(self) -> str:
        """The machine's name, for people."""
        return socket.gethostname()
