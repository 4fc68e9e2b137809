"""Leases and terms: who holds what until when, and the relations their timings must keep.

A lease never excludes; the comparison of the fence at the write does. The lease only says when others may try.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import UsageError

HEARTBEATS_IN_A_LEASE: Final = 2.5
"""How many a lease must outlast, so that one that is late does not end it."""
_ANSWER_SECONDS: Final = (5.0, 30.0)


@dataclass(frozen=True, slots=True)
class Timings:
    """Every timing of the protocol, in seconds, checked at start."""

    lease_seconds: float = 30.0
    heartbeat_seconds: float = 5.0
    leader_ttl_seconds: float = 15.0
    poll_min_seconds: float = 0.02
    poll_max_seconds: float = 1.0
    rescan_seconds: float = 30.0
    look_ahead_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse relations that cannot work. Raises UsageError."""
        if min(self.lease_seconds, self.heartbeat_seconds, self.leader_ttl_seconds, self.rescan_seconds) <= 0:
            raise UsageError("every timing must be longer than 0 s")
        if what := why_lease_is_lost(self.lease_seconds, self.heartbeat_seconds):
            raise UsageError(f"{what}: the lease must be at least {HEARTBEATS_IN_A_LEASE:g} heartbeats")
        if not 0 < self.poll_min_seconds <= self.poll_max_seconds:
            raise UsageError("the shortest poll interval must be above 0 s and not longer than the longest")

    @property
    def margin_seconds(self) -> float:
        """How long before its lease ends a node must have killed its jobs (protocol.md, Heartbeat)."""
        return max(min(1.0, self.lease_seconds / 4), self.lease_seconds / 10)

    @property
    def stall_seconds(self) -> float:
        """How long a leader's transaction may stand still: well below the TTL, since a takeover waits for it."""
        return min(5.0, self.leader_ttl_seconds / 3)

    @property
    def answer_seconds(self) -> float:
        """How long a node waits for one answer of its store."""
        return answer_seconds_of(self.lease_seconds)

    @property
    def on_time_seconds(self) -> float:
        """How late a slot may be noticed and still count as on time (format.md, Misfire)."""
        return self.leader_ttl_seconds + 5.0


def why_lease_is_lost(lease_seconds: float, heartbeat_seconds: float) -> str | None:
    """Say why heartbeats so far apart do not keep a lease; None when they do."""
    if heartbeat_seconds * HEARTBEATS_IN_A_LEASE <= lease_seconds:
        return None
    return f"a heartbeat every {heartbeat_seconds:g} s cannot keep a lease of {lease_seconds:g} s"


def answer_seconds_of(lease_seconds: float) -> float:
    """Give how long one answer may take: a third of the lease, so that a wait in vain leaves time for another try."""
    shortest, longest = _ANSWER_SECONDS
    return min(longest, max(shortest, lease_seconds / 3))


@dataclass(frozen=True, slots=True)
class Session:
    """One process start of a worker: what the store knows it by. The secret is never shown."""

    node_id: int
    epoch: int
    name: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Term:
    """A leader's hold: `number` only ever grows and is what every leader write presents."""

    number: int
    owner: str
