"""Playing a seed: set the scene, let it run, let it calm down, and have the checkers judge."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.engine.loop import DutyFailed
from reconciler.store import leader
from reconciler.telemetry import Event, subscribe
from tests.protocol.simulation.checks import judge
from tests.protocol.simulation.evidence import Evidence
from tests.protocol.simulation.jobs import Seen
from tests.protocol.simulation.leaders import Leaders
from tests.protocol.simulation.nodes import node_process
from tests.protocol.simulation.people import (
    BACKOFF_US,
    Committer,
    Operator,
    Requests,
    apply,
    declared_first,
    person,
)
from tests.protocol.simulation.plan import CALM_US, RUN_US, TTL_US, Scenario, Tape, scenario_of
from tests.protocol.simulation.stage import Stage
from tests.protocol.simulation.witness import told
from tests.protocol.simulation.world import ELAPSED_START_US, World

_PASSING: Final = ("StoreUnavailableError", "NotLeaderError")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a seed went. `steps` are those at which it deviated from the plain order."""

    scenario: Scenario
    violations: Sequence[str]
    steps: Sequence[int]
    faults: Sequence[str]
    refused: int
    terms: int
    runs: int
    reasons: frozenset[str]
    """Why slots did not run, and runs ended without one."""
    length: int
    trace: Sequence[str]

    @property
    def holds(self) -> bool:
        """Whether every invariant held."""
        return not self.violations


class Player:
    """Plays seeds, one after the other, on one stage."""

    def __init__(self, *, reads_back: bool = True) -> None:
        """Build the stage; `reads_back` False makes workers forget claims whose answer was lost."""
        self._stage = Stage()
        self._reads_back = reads_back
        self._errors: list[str] = []
        self._unsubscribe = subscribe(self._hear)

    def close(self) -> None:
        """Tear it down."""
        self._unsubscribe()
        self._stage.close()

    def play(self, seed: int, *, steps: Collection[int] | None = None, is_traced: bool = False) -> Verdict:
        """Play a seed; `steps` are those that may deviate from the plain order, None all."""
        scenario, tape = scenario_of(seed), Tape(seed, steps)
        world = World(scenario, tape, is_traced=is_traced)
        self._errors.clear()
        image = self._image(scenario)
        self._stage.begin(world, image)
        seen, requests = Seen(reads_back=self._reads_back), Requests()
        try:
            self._set_scene(world, seen, requests)
            world.run(ELAPSED_START_US + RUN_US, is_over=lambda: False)
            calm_us, calm_wall_us = world.elapsed_us, world.wall_us()
            world.calm()
            newest = self._newest_run()
            is_quiet = world.run(calm_us + CALM_US, is_over=lambda: self._is_quiet(newest, calm_wall_us))
        finally:
            world.close()
        evidence = Evidence(
            world=world,
            changes=list(told(self._stage.store, world.stamps)),
            seen=seen,
            requests=requests,
            errors=[*world.broken, *self._errors],
            newest_run=newest,
            calm_wall_us=calm_wall_us,
            is_quiet=is_quiet,
        )
        return self._verdict(evidence, tape)

    def _image(self, scenario: Scenario) -> str:
        """Give the image of a store to which the first revision was applied; that costs as much as half a schedule."""
        name, stage = "_".join(map(str, (*scenario.intervals, *scenario.caps))), self._stage
        if not stage.has(name):
            stage.begin(World(scenario, Tape(0, ()), is_traced=False))
            database = stage.seat("committer").database
            term = database.tx(lambda tx: leader.acquire(tx, "the stage", ttl_us=TTL_US))
            if term is not None:
                uids = (f"uid-first-{number}" for number in range(9))
                apply(database, term, declared_first(scenario), uids, caps=scenario.caps)
            stage.keep(name)
        return name

    def _verdict(self, evidence: Evidence, tape: Tape) -> Verdict:
        world = evidence.world
        count = self._stage.store.execute
        violations = judge(evidence)
        return Verdict(
            scenario=world.scenario,
            violations=violations,
            steps=tape.deviations,
            faults=[f"{fault} of {whom} at step {step}" for _, step, fault, whom in world.faults],
            refused=evidence.seen.refused,
            terms=count("SELECT term FROM leader").fetchone()[0],
            runs=count("SELECT count(*) FROM run_history").fetchone()[0],
            reasons=frozenset(
                row["reason"]
                for change in evidence.changes
                if change.table in {"slots", "run_history"} and (row := change.new) and row["reason"]
            ),
            length=world.steps,
            trace=world.trace or (),
        )

    def _set_scene(self, world: World, seen: Seen, requests: Requests) -> None:
        stage = self._stage
        leaders = Leaders(stage, world)
        for name in ("leader-a", "leader-b"):
            world.add(leaders.process(name))
        for number in range(world.scenario.workers):
            world.add(node_process(stage, world, f"worker-{'abc'[number]}", seen))
        seats = [stage.seat(name) for name in ("committer", "operator")]
        for seat in seats:
            seat.begin(1)
        world.add(person("committer", Committer(world, seats[0], leaders).act))
        world.add(person("operator", Operator(world, seats[1], requests).act))

    def _newest_run(self) -> int:
        found = self._stage.store.execute("SELECT seq FROM sqlite_sequence WHERE name = 'runs'").fetchone()
        return found[0] if found else 0

    def _is_quiet(self, newest: int, wall_us: int) -> bool:
        """Tell whether what was there when the calm began is over, and what was due then is settled."""
        left = self._stage.store.execute(
            "SELECT 1 FROM runs WHERE id <= ? AND (state NOT IN ('Scheduled', 'Retrying') OR due_us <= ?) "
            "UNION ALL SELECT 1 FROM triggers WHERE next_fire_us <= ?",
            (newest, wall_us + BACKOFF_US, wall_us),
        )
        return left.fetchone() is None

    def _hear(self, event: Event) -> None:
        if isinstance(event, DutyFailed) and not event.error.startswith(_PASSING):
            self._errors.append(f"duty {event.duty} failed: {event.error}")
