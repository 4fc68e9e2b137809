"""Years of schedules through the real materialise step: each slot has one run or one row of the ledger (S1, S2).

The slots that ought to have been are listed by the oracle of `tests/schedule`, activation by activation, from nothing
but what was declared when. Meanwhile leaders are away for hours and days, triggers are edited, jobs are paused and
resumed, and the clock is set. One year with 500 schedules over 20 zones; ten with `make proof`.
"""

import os
import random  # noqa: TID251 - seeded chance: a failed year can be played again
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from sqlalchemy import delete, select

from reconciler.clock import SECOND_US
from reconciler.model.definition import Job
from reconciler.model.policy import DayRule, Gap, MisfirePolicy, Overlap
from reconciler.store import slots
from reconciler.store.tables import runs
from reconciler.store.trigger_tables import slots as ledger
from reconciler.store.trigger_tables import triggers
from tests.schedule import oracle
from tests.store.cast import AHEAD_US, Store, job
from tests.turned import START_US

PROOF: Final = bool(os.environ.get("RECONCILER_PROOF"))
YEARS: Final = 10 if PROOF else 1
JOBS: Final = 500
HOUR_US: Final = 3600 * SECOND_US
STEP_HOURS: Final = 6
ZONES: Final = (
    *("America/New_York", "Europe/London", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"),
    *("Africa/Casablanca", "Africa/Cairo", "Asia/Beirut", "America/Havana", "America/Asuncion", "Pacific/Apia"),
    *("Asia/Kathmandu", "UTC", "Asia/Tokyo", "America/St_Johns", "Pacific/Chatham", "America/Sao_Paulo"),
    *("Europe/Dublin", "Asia/Kolkata", "Antarctica/Troll"),
)

pytestmark = [pytest.mark.timeout(7200 if PROOF else 300)]


@dataclass(frozen=True)
class Plan:
    """What a job's one trigger says."""

    cron: str
    zone: str
    gap: Gap
    overlap: Overlap
    day_rule: DayRule
    misfire: MisfirePolicy

    def job(self, name: str) -> Job:
        trigger = {
            "cron": self.cron,
            "timeZone": self.zone,
            "dst": {"gap": str(self.gap), "overlap": str(self.overlap)},
            "dayRule": str(self.day_rule),
            "misfire": {"policy": str(self.misfire), "cap": 20},
        }
        return job(name, triggers=[trigger])

    def slots(self, after_us: int, until_us: int) -> Iterator[int]:
        """Every slot later than one instant and not later than another, those of skipped local times too."""
        start, end = (us // SECOND_US + 1 for us in (after_us, until_us))
        reading = oracle.read(self.cron, both=self.day_rule is DayRule.AND)
        found = oracle.fires(reading, self.zone, str(self.gap), str(self.overlap), start=start, end=end)
        for seconds in (*found.fires, *found.skipped):
            yield int(seconds) * SECOND_US


@dataclass
class World:
    """A store, what was declared when, and chance."""

    store: Store
    chance: random.Random
    plans: dict[str, Plan] = field(default_factory=dict)
    begun: dict[str, list[tuple[int, Plan]]] = field(default_factory=lambda: defaultdict(list))
    """By job: the instants of its activations, and what held from then on."""
    furthest_us: int = START_US
    paused: set[str] = field(default_factory=set)

    def draw(self) -> Plan:
        """A schedule of some hundred slots a year, most of them at night, where clocks are changed."""
        chance = self.chance
        minute, hour = chance.randrange(60), chance.choice([0, 1, 1, 2, 2, 2, 3, 3, chance.randrange(24)])
        days = chance.choice(
            ["* * *"] * 6 + ["* * 1-5", "*/2 * *", "L * *", "1,15 * FRI", "15W * *", "* * 5#3", "29 2 *"]
        )
        clock = chance.choice([f"{minute} {hour}"] * 20 + [f"{minute} */3", f"{minute} 0-23/3", f"0,30 {hour}"])
        return Plan(
            f"{clock} {days}",
            chance.choice(ZONES),
            chance.choice(list(Gap)),
            chance.choice(list(Overlap)),
            chance.choice(list(DayRule)),
            chance.choice(list(MisfirePolicy)),
        )

    def declare(self, names: list[str]) -> None:
        """Apply new schedules of some jobs at this instant."""
        for name in names:
            self.plans[name] = self.draw()
            self.begun[name].append((self.store.clock.now_us(), self.plans[name]))
        self.store.apply(*(self.plans[name].job(name) for name in names))

    def pass_hours(self, hours: float) -> None:
        self.store.clock.turn(hours * 3600)
        self.furthest_us = max(self.furthest_us, self.store.clock.now_us())

    def settle(self) -> None:
        """Do what a leader does until nothing is due."""
        bounds = slots.Bounds(AHEAD_US, STEP_HOURS * HOUR_US + HOUR_US, 1000)
        while self.store.database.tx(lambda tx: slots.settle(tx, self.store.term, bounds)).more:
            pass
        self.store.end_pauses()
        while self.store.promote():
            pass

    def happen(self) -> None:
        """Let something happen that happens now and then."""
        match self.chance.randrange(40):
            case 0:  # nobody leads for up to three days
                self.pass_hours(self.chance.randrange(1, 72))
            case 1 | 2 if self.store.clock.now_us() >= self.furthest_us:
                self.declare(self.chance.sample(sorted(self.plans), 5))
            case 3:
                name = self.chance.choice(sorted(self.plans.keys() - self.paused))
                self.store.pause(name)
                self.paused.add(name)
            case 4 if self.paused:
                name = self.chance.choice(sorted(self.paused))
                self.store.resume(name, catch_up=self.chance.random() < 0.5)
                self.paused.discard(name)
            case 5:  # somebody sets the clock
                self.store.clock.at_us += self.chance.randrange(-2 * 3600, 5 * 3600) * SECOND_US
                self.furthest_us = max(self.furthest_us, self.store.clock.now_us())
            case _:
                pass

    def expected(self, name: str, until_us: int) -> list[int]:
        """The slots of a job by the oracle, from each activation to the next."""
        begun = self.begun[name]
        ends = [*(at for at, _ in begun[1:]), until_us]
        return [slot for (at, plan), end in zip(begun, ends, strict=True) for slot in plan.slots(at, end)]


def test_every_slot_of_years_has_exactly_one_run_or_one_recorded_reason(store: Store, record_property: Any) -> None:
    world = World(store, random.Random(20260101))
    world.declare([f"job-{each:03}" for each in range(JOBS)])
    came: dict[int, list[int]] = defaultdict(list)
    ran = 0
    while world.store.clock.now_us() < START_US + YEARS * 365 * 24 * HOUR_US:
        world.pass_hours(STEP_HOURS)
        world.happen()
        world.settle()
        ran += taken(world.store, came)
    for name in sorted(world.paused):
        world.store.resume(name)
    world.settle()
    ran += taken(world.store, came)
    skipped = 0
    with world.store.database.engine.connect() as connection:
        jobs = {
            row.id: row.definition_id for row in connection.execute(select(triggers.c.id, triggers.c.definition_id))
        }
        for row in connection.execute(select(ledger.c.trigger_id, ledger.c.slot_us)):
            came[row.trigger_id].append(row.slot_us)
            skipped += 1
    names = {each.id: each.name for _, each in world.store.live("Job")}
    until_us = world.store.clock.now_us()

    for trigger_id, found in came.items():
        name = names[jobs[trigger_id]]
        assert len(found) == len(set(found)), f"{name} has a slot twice"
        ahead = [slot for slot in found if slot > until_us]
        assert all(slot <= world.furthest_us + AHEAD_US for slot in ahead)
        assert sorted(set(found) - set(ahead)) == sorted(set(world.expected(name, until_us))), (
            f"{name}: {world.begun[name]}"
        )
    record_property("runs", ran)
    record_property("skipped", skipped)
    assert ran + skipped > 100_000 * YEARS


def taken(store: Store, came: dict[int, list[int]]) -> int:
    """Take away the runs that were made, as workers would, and note their slots."""

    def take(tx: Any) -> int:
        made = tx.execute(select(runs.c.trigger_id, runs.c.slot_us).where(runs.c.state == "Pending")).all()
        for row in made:
            came[row.trigger_id].append(row.slot_us)
        tx.execute(delete(runs).where(runs.c.state == "Pending"))
        return len(made)

    return store.database.tx(take)
