"""Claims, leases, fences (I1 to I5), and that what was acknowledged stays (R4, R5)."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import ClassVar, Final

from tests.protocol.simulation.cast import Transaction
from tests.protocol.simulation.evidence import Checker, Row
from tests.protocol.simulation.jobs import Effect
from tests.protocol.simulation.plan import LEASE_US
from tests.protocol.simulation.witness import Change

_HELD: Final = frozenset({"Claimed", "Running"})


@dataclass(slots=True)
class Claims(Checker):
    """Follows every lease and every hold."""

    tables: ClassVar[frozenset[str]] = frozenset({"nodes", "runs", "run_history", "attempts"})
    leases: dict[int, int] = field(default_factory=dict)
    """Node id -> until when its session lasts, in elapsed microseconds; 0 when it was declared dead."""
    granted: dict[int, int] = field(default_factory=dict)
    """Run id -> the highest fence that was ever granted."""
    completed: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Run id -> how it ended, and under which fence."""
    holds: set[tuple[int, int, str]] = field(default_factory=set)

    def see(self, change: Change, by: Transaction) -> None:
        """Look at one change."""
        match change.table:
            case "nodes":
                self._see_lease(change, by)
            case "runs":
                self._see_run(change, by)
            case "attempts" if change.new is not None:
                self.holds.add((change.new["run_id"], change.new["fence"], change.new["outcome"]))
            case _:
                self._see_history(change)

    def end(self) -> None:
        """Compare with what the nodes saw and did."""
        by_run: dict[int, list[Effect]] = defaultdict(list)
        for effect in self.evidence.seen.effects:
            by_run[effect.run_id].append(effect)
        for run_id, effects in by_run.items():
            self._compare(run_id, effects)
        for run_id, fence, outcome in self.evidence.seen.acknowledged:
            if (run_id, fence, outcome) not in self.holds:
                self.say(
                    "R5", f"{outcome} of run {run_id} under fence {fence} was acknowledged and is not in the store"
                )
        for run_id, (state, fence) in self.completed.items():
            if state == "Succeeded" and all(effect.fence != fence for effect in by_run[run_id]):
                self.say("R4", f"run {run_id} succeeded under fence {fence}, and no job ran under it")

    def _see_lease(self, change: Change, by: Transaction) -> None:
        old, new = change.old, change.new
        if new is None:
            return
        if old is not None and new["lease_until_us"] > old["lease_until_us"]:
            asked_us = new["lease_until_us"] - LEASE_US
            if old["state"] == "Dead" or old["lease_until_us"] <= asked_us:
                self.say("I4", f"the session of node {new['id']} was over and was renewed", change)
            if not by.begun_us <= asked_us <= change.at_us:
                self.say("I4", f"node {new['id']} was renewed by a clock that was read outside of the write", change)
        is_buried = old is not None and new["state"] == "Dead" != old["state"] and by.node_id != new["id"]
        if old is not None and is_buried and old["lease_until_us"] > change.at_us:
            self.say("I1", f"node {new['id']} was declared dead while its lease was running", change)
        self.leases[new["id"]] = 0 if new["state"] == "Dead" else new["lease_until_us"]

    def _see_run(self, change: Change, by: Transaction) -> None:
        old, new = change.old, change.new
        if old is None:
            return
        if old["state"] in _HELD and (new is None or new["state"] not in _HELD):
            self._see_let_go(old, change, by)
        if new is None:
            return
        if new["state"] in _HELD and old["state"] not in _HELD:
            self._see_claim(old, new, change, by)
        elif new["fence"] != old["fence"]:
            self.say(
                "I2", f"the fence of run {new['id']} went from {old['fence']} to {new['fence']} by no claim", change
            )

    def _see_claim(self, old: Row, new: Row, change: Change, by: Transaction) -> None:
        run_id, node_id = new["id"], new["node_id"]
        if new["fence"] <= self.granted.get(run_id, 0) or new["fence"] <= old["fence"]:
            self.say("I2", f"run {run_id} was claimed under fence {new['fence']} again", change)
        self.granted[run_id] = new["fence"]
        if node_id != by.node_id or self.leases.get(node_id, 0) <= by.begun_us:
            self.say("I1", f"run {run_id} was claimed for node {node_id}, whose session is over or another's", change)

    def _see_let_go(self, old: Row, change: Change, by: Transaction) -> None:
        """A hold ends: by the holder's report under its fence, or by a leader once the lease is over."""
        run_id, node_id = old["id"], old["node_id"]
        if by.term is not None:
            if self.leases.get(node_id, 0) > change.at_us:
                self.say("I1", f"run {run_id} was taken from node {node_id} while its lease was running", change)
            return
        if by.node_id != node_id or by.reports.get(run_id) != old["fence"]:
            reported = f"node {by.node_id} under fence {by.reports.get(run_id)}"
            self.say(
                "I3", f"run {run_id}, held by node {node_id} under {old['fence']}, was ended by {reported}", change
            )
        elif self.leases.get(node_id, 0) <= by.begun_us:
            self.say("I3", f"run {run_id} was ended by node {node_id}, whose session was over", change)

    def _see_history(self, change: Change) -> None:
        if change.old is not None or change.new is None:
            self.say("R1", f"the history of run {(change.old or {}).get('run_id')} was changed", change)
            return
        run_id, fence = change.new["run_id"], change.new["fence"]
        if run_id in self.completed:
            self.say("I3", f"run {run_id} was completed twice", change)
        if fence != self.granted.get(run_id, 0):
            self.say("I2", f"run {run_id} ended under fence {fence}, not the highest granted", change)
        self.completed[run_id] = (change.new["state"], fence)

    def _compare(self, run_id: int, effects: list[Effect]) -> None:
        accepted = self.completed.get(run_id, ("", math.inf))[1]
        for effect in effects:
            if effect.fence > accepted:
                self.say("I3", f"a job of run {run_id} began under fence {effect.fence}, after {accepted} was accepted")
        for first, second in itertools.combinations(sorted(effects, key=lambda each: each.fence), 2):
            if not _overlap(first, second):
                continue
            if first.fence == second.fence:
                self.say("I1", f"two jobs of run {run_id} ran under fence {first.fence}")
            elif not first.stood_still:
                self.say("I5", f"jobs of run {run_id} overlapped ({_told(first)}, {_told(second)}) with no node frozen")


def _overlap(first: Effect, second: Effect) -> bool:
    return first.begun_us < (second.ended_us or math.inf) and second.begun_us < (first.ended_us or math.inf)


def _told(effect: Effect) -> str:
    return f"fence {effect.fence} on {effect.node}, {effect.begun_us}-{effect.ended_us}"
