"""Caps: no run is claimed that makes more of its queue, or of all queues, run than may (C1)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Final

from tests.protocol.simulation.cast import Transaction
from tests.protocol.simulation.evidence import Checker, Row
from tests.protocol.simulation.witness import Change

_ALL: Final = "*"
_HELD: Final = frozenset({"Claimed", "Running"})


@dataclass(slots=True)
class Places(Checker):
    """Counts held runs by itself, from their states alone."""

    tables: ClassVar[frozenset[str]] = frozenset({"queues", "requirements", "runs"})
    caps: dict[str, int | None] = field(default_factory=dict)
    queue_of: dict[int, str] = field(default_factory=dict)
    held: dict[int, str] = field(default_factory=dict)
    """Run id -> queue of those that are held."""
    claimed: set[str] = field(default_factory=set)
    """The queues of which this transaction claimed a run."""

    def see(self, change: Change, by: Transaction) -> None:  # noqa: ARG002 - whoever did it
        """Look at one change."""
        match change.table:
            case "queues":
                self._see_queue(change)
            case "requirements" if change.new is not None:
                self.queue_of[change.new["id"]] = change.new["queue"]
            case "runs":
                self._see_run(change.old, change.new)
            case _:
                return

    def committed(self, by: Transaction) -> None:
        """Look at what stands: only who claims must keep to a cap, since a smaller one ends no run."""
        running = Counter(self.held.values())
        running[_ALL] = len(self.held)
        for queue in self.claimed:
            cap = self.caps.get(queue)
            if cap is not None and running[queue] > cap:
                self.say("C1", f"{by.thread} claimed from queue {queue}, of which {running[queue]} run and {cap} may")
        self.claimed.clear()

    def _see_queue(self, change: Change) -> None:
        if change.old is not None:
            self.caps.pop(change.old["name"], None)
        if change.new is not None:
            self.caps[change.new["name"]] = change.new["max_running"]

    def _see_run(self, old: Row | None, new: Row | None) -> None:
        was_held, is_held = (row is not None and row["state"] in _HELD for row in (old, new))
        if old is not None and was_held and not is_held:
            self.held.pop(old["id"], None)
        if new is not None and is_held and not was_held:
            queue = self.queue_of[new["requirement_id"]]
            self.held[new["id"]] = queue
            self.claimed |= {queue, _ALL}
