"""Slots: each once (S1), none lost (S2), none early (S3), and the cursor never back (S4).

The slots that are due are counted here by plain arithmetic, from the triggers' rows as they were declared.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Final

from reconciler.clock import SECOND_US
from tests.protocol.simulation.cast import Transaction
from tests.protocol.simulation.evidence import Checker
from tests.protocol.simulation.people import BACKOFF_US
from tests.protocol.simulation.witness import Change
from tests.turned import START_US

_UNITS: Final = {"s": 1, "m": 60}
_WAITING: Final = frozenset({"Scheduled", "Retrying"})
_MOST_TOLD: Final = 5


@dataclass(slots=True)
class Activation:
    """A stretch of time in which one timing was in force."""

    timing: str
    begun_us: int
    ended_us: int | None = None


@dataclass(slots=True)
class Slots(Checker):
    """Follows triggers, and everything that a slot became."""

    tables: ClassVar[frozenset[str]] = frozenset({"triggers", "runs", "run_history", "slots"})
    became: Counter[tuple[int, int]] = field(default_factory=Counter)
    """(trigger, slot) -> how many live runs, finished runs and ledger rows there are of it."""
    touched: set[tuple[int, int]] = field(default_factory=set)
    activations: dict[int, list[Activation]] = field(default_factory=dict)

    def see(self, change: Change, by: Transaction) -> None:
        """Look at one change."""
        if change.table == "triggers":
            self._see_trigger(change)
            return
        for row, one in ((change.old, -1), (change.new, 1)):
            if row is not None and row["trigger_id"] is not None:
                key = (row["trigger_id"], row["slot_us"])
                self.became[key] += one
                self.touched.add(key)
        if change.table == "runs":
            self._see_run(change, by)

    def committed(self, by: Transaction) -> None:
        """A slot stands in one place after each commit."""
        for trigger_id, slot_us in self.touched:
            if (number := self.became[trigger_id, slot_us]) > 1:
                what = f"slot {_shown(slot_us)} of trigger {trigger_id} stands {number} times after {by.thread}"
                self.say("S1", what)
        self.touched.clear()

    def end(self) -> None:
        """Every slot that was due when the calm began became something."""
        calm_us = self.evidence.calm_wall_us
        for trigger_id, activations in self.activations.items():
            missing: list[str] = []
            for each in activations:
                until_us = calm_us if each.ended_us is None else min(calm_us, each.ended_us)
                due = _slots(each.timing, each.begun_us, until_us)
                missing += [_shown(slot_us) for slot_us in due if self.became[trigger_id, slot_us] == 0]
            if missing:
                shown = ", ".join(missing[:_MOST_TOLD])
                self.say("S2", f"{len(missing)} slots of trigger {trigger_id} became nothing: {shown}")

    def _see_trigger(self, change: Change) -> None:
        old, new = change.old, change.new
        if new is None:
            self.say("S4", "a trigger's row was deleted", change)
            return
        activations = self.activations.setdefault(new["id"], [])
        if old is None or new["activation"] != old["activation"]:
            if old is not None and new["activation"] != old["activation"] + 1:
                self.say("S4", f"trigger {new['id']} skipped an activation", change)
            if activations and activations[-1].ended_us is None:
                activations[-1].ended_us = new["activated_us"]
            activations.append(Activation(new["timing"], new["activated_us"]))
        elif new["cursor_us"] < old["cursor_us"]:
            back = f"from {_shown(old['cursor_us'])} to {_shown(new['cursor_us'])}"
            self.say("S4", f"the cursor of trigger {new['id']} went back {back}", change)
        if new["removed_us"] is not None and activations[-1].ended_us is None:
            activations[-1].ended_us = new["removed_us"]

    def _see_run(self, change: Change, by: Transaction) -> None:
        """A run is claimable from its instant on, by the latest wall clock that its writer can have read."""
        old, new = change.old, change.new
        if new is None or (old is not None and old["state"] == new["state"]):
            return
        latest_us = self.evidence.world.latest_wall_us(by.begun_us, change.at_us)
        waited = new["trigger_id"] is not None if old is None else old["state"] in _WAITING
        if new["state"] == "Pending" and new["due_us"] > latest_us and waited:
            self.say("S3", f"run {new['id']} was claimable before its instant {_shown(new['due_us'])}", change)
        has_stepped = by.begun_us - by.begun_wall_us != change.at_us - change.wall_us
        if new["state"] == "Retrying" and new["due_us"] < by.begun_wall_us + BACKOFF_US and not has_stepped:
            self.say("R7", f"run {new['id']} waits less than its backoff", change)


def _slots(timing: str, after_us: int, until_us: int) -> range:
    """List the slots of an `every` trigger that are later than one instant and not later than another."""
    declared = json.loads(timing)
    every = declared["every"]
    interval_us = int(every[:-1]) * _UNITS[every[-1]] * SECOND_US
    first_us = START_US if "anchor" in declared else after_us + interval_us
    if first_us <= after_us:
        first_us += ((after_us - first_us) // interval_us + 1) * interval_us
    return range(first_us, until_us + 1, interval_us)


def _shown(us: int) -> str:
    return f"{(us - START_US) / SECOND_US:+.3f} s"
