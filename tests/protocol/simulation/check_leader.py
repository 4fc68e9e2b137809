"""The lead: terms only grow (L1), and nothing is written under one that is over (L2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tests.protocol.simulation.cast import Transaction
from tests.protocol.simulation.evidence import Checker, Row
from tests.protocol.simulation.people import OPERATOR
from tests.protocol.simulation.plan import TTL_US
from tests.protocol.simulation.witness import Change


@dataclass(slots=True)
class Lead(Checker):
    """Follows the leader's row, and who writes what only a leader may."""

    tables: ClassVar[frozenset[str]] = frozenset({"leader", "triggers", "slots", "nodes", "runs"})
    term: int = 0

    def see(self, change: Change, by: Transaction) -> None:
        """Look at one change."""
        match change.table:
            case "leader" if change.old is not None and change.new is not None:
                self._see_row(change.old, change.new, change, by)
                self.term = change.new["term"]
            case "triggers" | "slots":
                self._see_duty(change, by)
            case "runs" if change.old is None and change.new is not None and change.new["trigger_id"] is not None:
                self._see_duty(change, by)
            case "nodes" if change.new is not None and change.new["state"] == "Dead":
                if by.node_id != change.new["id"]:  # a node may declare itself dead
                    self._see_duty(change, by)
            case _ if by.term is not None:
                self._see_duty(change, by)
            case _:
                return

    def _see_row(self, old: Row, new: Row, change: Change, by: Transaction) -> None:
        asked_us = new["expires_us"] - TTL_US
        is_release = by.begun_us <= new["expires_us"] <= change.at_us
        is_renewal = new["term"] == old["term"] and new["expires_us"] > old["expires_us"] and not is_release
        if new["term"] not in {old["term"], old["term"] + 1}:
            self.say("L1", f"the term went from {old['term']} to {new['term']}", change)
        if new["term"] > old["term"] and old["expires_us"] > asked_us:
            self.say("L1", f"term {new['term']} began while {old['term']} was running", change)
        if is_renewal and (old["expires_us"] <= asked_us or new["owner"] != old["owner"]):
            self.say("L1", f"term {old['term']} was over and was renewed by {new['owner']}", change)
        if (is_renewal or new["term"] > old["term"]) and not by.begun_us <= asked_us <= change.at_us:
            self.say("L1", "the lead was taken by a clock that was read outside of the write", change)

    def _see_duty(self, change: Change, by: Transaction) -> None:
        if by.thread == OPERATOR:  # a pause, which needs no leader
            return
        if by.term != self.term:
            self.say(
                "L2", f"{by.thread} wrote {change.table} under term {by.term}, when {self.term} was current", change
            )
        row = change.new or {}
        author = row.get("created_by" if change.table == "runs" else "recorded_by")
        if change.old is None and author is not None and author != f"leader/{self.term}":
            self.say("L2", f"{author} wrote {change.table}, when {self.term} was current", change)
