"""What a worker has to tell (telemetry events)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from reconciler.telemetry import Event


@dataclass(frozen=True, slots=True)
class SessionOpened(Event):
    """The node registered and may claim."""

    node: str
    node_id: int
    slots: int


@dataclass(frozen=True, slots=True)
class SessionClosed(Event):
    """The node stopped: its jobs are over, their results written, and it is no longer registered."""

    node: str
    node_id: int


@dataclass(frozen=True, slots=True)
class SessionLost(Event):
    """The lease is over: jobs are ended, results under it are refused, and the node registers anew."""

    level: ClassVar[int] = logging.WARNING
    node: str
    node_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class RenewalMissed(Event):
    """The guard could not renew the lease and will try again."""

    level: ClassVar[int] = logging.WARNING
    node: str
    error: str


@dataclass(frozen=True, slots=True)
class StoreFailed(Event):
    """A step needed the store and did not get it; the worker goes on and tries again."""

    level: ClassVar[int] = logging.ERROR
    node: str
    step: str
    error: str


@dataclass(frozen=True, slots=True)
class StepFailed(Event):
    """A step of the worker's loop broke by a fault of our own; the loop goes on."""

    level: ClassVar[int] = logging.ERROR
    node: str
    step: str
    error: str


@dataclass(frozen=True, slots=True)
class GuardDied(Event):
    """The guard process ended unasked; its jobs were ended and another guard is started."""

    level: ClassVar[int] = logging.ERROR
    node: str
    pid: int
    jobs: int


@dataclass(frozen=True, slots=True)
class LeaseRenewed(Event):
    """The guard renewed the lease; the store took so long to answer."""

    level: ClassVar[int] = logging.DEBUG
    node: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RunsClaimed(Event):
    """The store was asked for runs: how many it gave, how long that took, and how long each had waited when due."""

    level: ClassVar[int] = logging.DEBUG
    node: str
    seconds: float
    waited_seconds: Sequence[float]


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A claimed run's process runs."""

    node: str
    run_id: int
    fence: int
    attempt: int
    definition: str
    pid: int


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """A run's whole process tree is gone; its result goes to the store next."""

    node: str
    run_id: int
    fence: int
    result: str
    exit_code: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class RunRecorded(Event):
    """The store accepted how an attempt ended; `state` is what became of its run."""

    level: ClassVar[int] = logging.DEBUG
    node: str
    run_id: int
    fence: int
    definition: str
    result: str
    state: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RunStopped(Event):
    """A run was ended before its time, by a drain or with its lease; it is nobody's failure."""

    level: ClassVar[int] = logging.WARNING
    node: str
    run_id: int
    fence: int
    reason: str


@dataclass(frozen=True, slots=True)
class StrayFound(Event):
    """The store granted a run and its answer was lost: it never started here and is handed back."""

    level: ClassVar[int] = logging.WARNING
    node: str
    run_id: int
    fence: int


@dataclass(frozen=True, slots=True)
class FencedOut(Event):
    """A write was refused: the run is no longer ours. `operation` is `finish`, `hand_back` or `log`."""

    level: ClassVar[int] = logging.WARNING
    node: str
    run_id: int
    fence: int
    operation: str


@dataclass(frozen=True, slots=True)
class Draining(Event):
    """The node claims nothing more and waits for its jobs."""

    node: str
    jobs: int
    timeout_seconds: float
