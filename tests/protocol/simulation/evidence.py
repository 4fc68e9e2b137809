"""What the checkers are given, and what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from reconciler.clock import SECOND_US
from tests.protocol.simulation.cast import Transaction
from tests.protocol.simulation.jobs import Seen
from tests.protocol.simulation.people import Requests
from tests.protocol.simulation.witness import Change
from tests.protocol.simulation.world import ELAPSED_START_US, World

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was seen of one seed."""

    world: World
    changes: Sequence[Change]
    seen: Seen
    requests: Requests
    errors: Sequence[str]
    newest_run: int
    """The newest run when the calm began; it and all before must be over."""
    calm_wall_us: int
    is_quiet: bool


@dataclass(slots=True)
class Checker:
    """One part of the contract: looks at each committed change in order, then at the whole."""

    tables: ClassVar[frozenset[str]]
    evidence: Evidence
    found: list[str] = field(default_factory=list)

    def see(self, change: Change, by: Transaction) -> None:
        """Look at one change of one of `tables`."""

    def committed(self, by: Transaction) -> None:
        """Look at what stands after a transaction."""

    def end(self) -> None:
        """Look at what stands in the end."""

    def say(self, law: str, what: str, change: Change | None = None) -> None:
        """Note a violation."""
        at = "" if change is None else f" (at {(change.at_us - ELAPSED_START_US) / SECOND_US:.3f} s)"
        self.found.append(f"{law}: {what}{at}")
