"""The life of runs: legal moves only (R1), none lost or stuck (R2), within their budget (R3), one per request (R6).

One that is cancelled while it is held moves nowhere but into history (R9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tests.protocol.simulation.cast import Transaction
from tests.protocol.simulation.evidence import Checker, Row
from tests.protocol.simulation.people import MAX_ATTEMPTS, OPERATOR
from tests.protocol.simulation.witness import Change

_MOVES: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"Scheduled", "Pending"}),
    "Scheduled": frozenset({"Pending", "Cancelled", "Skipped"}),
    "Pending": frozenset({"Running", "Cancelled", "Skipped"}),
    "Running": frozenset({"Pending", "Retrying", "Succeeded", "Failed", "Cancelled", "DeadLettered"}),
    "Retrying": frozenset({"Pending", "Cancelled", "Skipped"}),
}
"""The moves that may be seen here, written down a second time on purpose."""
_MOST: Final[Mapping[str, int]] = {"Failed": MAX_ATTEMPTS, "LostLease": 3}
"""How often an attempt of one run may end so."""


@dataclass(slots=True)
class Life(Checker):
    """Follows every run from the row that makes it to the row that ends it."""

    tables: ClassVar[frozenset[str]] = frozenset({"runs", "run_history", "attempts"})
    live: dict[int, Row] = field(default_factory=dict)
    gone: dict[int, tuple[Row, Change]] = field(default_factory=dict)
    """Rows that this transaction deleted and for which no history was seen."""
    ended: dict[int, str] = field(default_factory=dict)
    claims: Counter[int] = field(default_factory=Counter)
    holds: Counter[tuple[int, str]] = field(default_factory=Counter)
    by_hand: int = 0

    def see(self, change: Change, by: Transaction) -> None:  # noqa: ARG002 - who wrote it does not matter here
        """Look at one change."""
        match change.table:
            case "runs":
                self._see_run(change)
            case "run_history" if change.new is not None:
                self.ended[change.new["run_id"]] = change.new["state"]
            case "attempts" if change.new is not None:
                self.holds[change.new["run_id"], change.new["outcome"]] += 1

    def committed(self, by: Transaction) -> None:
        """A live row goes into history in the same commit; only what was made ahead may be withdrawn."""
        for run_id, (old, change) in self.gone.items():
            state = self.ended.get(run_id)
            if state is None:
                if (
                    by.thread not in {"committer", OPERATOR}
                    or old["state"] != "Scheduled"
                    or old["due_us"] <= by.begun_wall_us
                ):
                    self.say("R2", f"run {run_id} is gone from {old['state']} without a trace", change)
            elif state not in _MOVES[old["state"]]:
                self.say("R1", f"run {run_id} went from {old['state']} to {state}", change)
        self.gone.clear()

    def end(self) -> None:
        """Nothing is left, nothing ran too often, nothing was made twice."""
        for run_id, row in self.live.items():
            if not self.evidence.is_quiet and run_id <= self.evidence.newest_run:
                self.say("R2", f"run {run_id} is still {row['state']} long after the last fault: {dict(row)}")
        if not self.evidence.is_quiet and not self.found:
            self.say("R2", "a due trigger is not settled long after the last fault")
        for run_id, number in self.claims.items():
            counted = number - self.holds[run_id, "HandedBack"]
            spent = {outcome: self.holds[run_id, outcome] for outcome in _MOST}
            if counted > sum(_MOST.values()) or any(spent[outcome] > most for outcome, most in _MOST.items()):
                self.say("R3", f"run {run_id} was executed {counted} times: {spent}")
        self._compare_requests()

    def _see_run(self, change: Change) -> None:
        old, new = change.old, change.new
        before: Any = "" if old is None else old["state"]
        if new is None:
            if old is not None:
                self.live.pop(old["id"], None)
                self.gone[old["id"]] = (old, change)
            return
        if old is None:
            self.by_hand += new["created_by"] == OPERATOR
        if new["id"] in self.ended:
            self.say("R1", f"run {new['id']} is alive again", change)
        self.live[new["id"]] = new
        if new["state"] != before:
            self.claims[new["id"]] += new["state"] == "Running"
            if new["state"] not in _MOVES[before]:
                self.say("R1", f"run {new['id']} went from {before or 'nothing'} to {new['state']}", change)
            if old is not None and old["cancel_requested"]:
                self.say("R9", f"run {new['id']} was to be cancelled and is {new['state']}", change)

    def _compare_requests(self) -> None:
        told = self.evidence.requests.told
        for key, run_ids in told.items():
            if len(run_ids) > 1:
                self.say("R6", f"request {key} was told of runs {sorted(run_ids)}")
        if self.by_hand > len(told):
            self.say("R6", f"{len(told)} requests made {self.by_hand} runs")
