"""Those who want things: an operator who triggers and cancels, and a committer whose edits a leader applies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from reconciler.clock import SECOND_US, iso
from reconciler.errors import NotFoundError, NotLeaderError, RefusedError, StoreUnavailableError
from reconciler.model.kinds import KINDS, Declared
from reconciler.model.lease import Term
from reconciler.model.policy import OnDelete
from reconciler.store import definitions, passes, pauses, places, revisions, runs
from reconciler.store.database import Database, Tx
from tests.protocol.simulation.cast import Process
from tests.protocol.simulation.leaders import Leaders
from tests.protocol.simulation.plan import TIMINGS, Scenario
from tests.protocol.simulation.stage import Seat
from tests.protocol.simulation.world import World
from tests.store.cast import calendar, job, queue

ANCHOR: Final = "2026-01-01T00:00:00Z"
OPERATOR: Final = "operator"
NARROW: Final = "narrow"
"""The queue of two of the jobs."""
FREEZE: Final = "freeze"
"""The calendar that some triggers mind."""
OPEN: Final = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}
"""A window long past: it closes nothing."""
MAX_ATTEMPTS: Final = 2
BACKOFF_US: Final = SECOND_US
_RETRY: Final = {"maxAttempts": MAX_ATTEMPTS, "backoff": "Fixed", "initial": "1s"}
_PAUSES: Final = 0.25
_EDITS_A_CAP: Final = 0.2
_EDITS_THE_CALENDAR: Final = 0.5
_AGAIN_SECONDS: Final = 0.7
_ON_TIME_US: Final = round(TIMINGS.on_time_seconds * SECOND_US)


@dataclass
class Requests:
    """What the operator asked for: the runs it was told of by idempotency key."""

    told: dict[str, set[int]] = field(default_factory=dict)


class Operator:
    """Triggers runs, each with a key and until an answer comes, and cancels some."""

    def __init__(self, world: World, seat: Seat, requests: Requests) -> None:
        """Sit down."""
        self._world = world
        self._seat = seat
        self._requests = requests

    def act(self) -> None:
        """Do a handful of things, and no more."""
        for number in range(self._seat.whole(1, 3)):
            self._world.sleep(self._seat.whole(300, 3000) / 1000)
            drawn = self._seat.fraction()
            if drawn < _PAUSES:
                self._pause_or_resume()
            elif number and drawn < 0.5:
                self._cancel()
            else:
                self._trigger(f"request-{number}")

    def _trigger(self, key: str) -> None:
        told = self._requests.told.setdefault(key, set())
        name = ("alpha", "beta", "gamma")[self._seat.whole(0, 2)]
        for _ in range(self._seat.whole(1, 2)):  # a double click asks twice
            if (made := self._asked(lambda tx: runs.create(tx, name, actor=OPERATOR, idempotency_key=key))) is None:
                return
            told.add(made[0])

    def _cancel(self) -> None:
        known = sorted(run_id for told in self._requests.told.values() for run_id in told)
        run_id = known[self._seat.whole(0, len(known) - 1)] if known else 1
        self._asked(lambda tx: runs.cancel(tx, run_id, actor=OPERATOR))

    def _pause_or_resume(self) -> None:
        """Pause a job that fires, for a while or for good, or resume it; with what was missed or without."""
        name, way = ("alpha", "beta")[self._seat.whole(0, 1)], self._seat.whole(0, 3)
        if way > 1:
            self._asked(lambda tx: pauses.resume(tx, name, actor=OPERATOR, catch_up=way == 2))
            return
        for_us = self._seat.whole(500, 4000) * 1000 if way else None
        self._asked(
            lambda tx: pauses.pause(
                tx, name, actor=OPERATOR, reason="", until_us=None if for_us is None else tx.now_us() + for_us
            )
        )

    def _asked(self, fn: Callable[[Tx], Any]) -> Any:
        while True:
            try:
                return self._seat.database.tx(fn)
            except (NotFoundError, RefusedError):
                return None
            except StoreUnavailableError:
                self._world.sleep(_AGAIN_SECONDS)


class Committer:
    """Changes what is declared, and has it applied under the term of whoever believes to lead."""

    def __init__(self, world: World, seat: Seat, leaders: Leaders) -> None:
        """Know what is declared already."""
        self._world = world
        self._seat = seat
        self._leaders = leaders
        self._uids = (f"uid-{number}" for number in itertools.count())
        self._edited = world.scenario.intervals[2]
        self._specs = declared_first(world.scenario)
        self._caps = world.scenario.caps
        self._freeze = OPEN

    def act(self) -> None:
        """Make a few edits."""
        for _ in range(self._seat.whole(0, 2)):
            self._world.sleep(self._seat.whole(100, 3000) / 1000)
            for _ in range(self._seat.whole(1, 3)):
                self._edit()
            self._apply_until_done()

    def _edit(self) -> None:
        if (drawn := self._seat.fraction()) < _EDITS_A_CAP:
            self._caps = (self._cap(), self._cap())
            return
        if drawn < _EDITS_THE_CALENDAR:
            self._freeze = self._window()
            return
        name = ("alpha", "beta")[self._seat.whole(0, 1)]
        spec = self._specs.get(name)
        if spec is None:  # it was removed: declare it anew
            self._specs[name] = {
                "queue": NARROW,
                "triggers": [{"name": "often", "every": self._edited, "anchor": ANCHOR}],
            }
            return
        match self._seat.whole(0, 7):
            case 0:
                spec["suspend"] = not spec.get("suspend", False)
            case 1:
                del self._specs[name]
            case 2 | 3:
                self._edit_trigger(spec)
            case _:
                self._edit_spec(spec)

    def _edit_spec(self, spec: dict[str, Any]) -> None:
        match self._seat.whole(0, 3):
            case 0:
                spec["triggers"] = [] if spec["triggers"] else [{"name": "often", "every": self._edited}]
            case 1:
                anchor = {"anchor": ANCHOR} if self._seat.fraction() < 0.5 else {}
                spec["triggers"] = [{"name": "often", "every": self._other(spec), **anchor}]
            case 2:
                spec["priority"] = self._seat.whole(4, 5)  # above the others it could starve them
            case _:
                spec["startingDeadline"] = ("1s", "5s", "1h")[self._seat.whole(0, 2)]

    def _edit_trigger(self, spec: dict[str, Any]) -> None:
        """Change what a trigger says beside its interval."""
        policy = ("FireNow", "SkipToNext", "RunAllMissed")[self._seat.whole(0, 2)]
        action = ("Skip", "Defer")[self._seat.whole(0, 1)]
        changes: list[dict[str, Any]] = [
            {"misfire": {"policy": policy}},
            {"calendars": _minding(action)},
            {"suspend": policy == "FireNow"},
        ]
        change = changes[self._seat.whole(0, 2)]
        spec["triggers"] = [{**each, **change} for each in spec["triggers"]]

    def _window(self) -> dict[str, str]:
        """Draw when the calendar is closed: a few seconds around now."""
        now_us = self._seat.now_us()
        first_us = now_us + self._seat.whole(-3000, 3000) * 1000
        return {"from": iso(first_us), "to": iso(first_us + self._seat.whole(500, 5000) * 1000)}

    def _cap(self) -> int | None:
        return (None, 1, 2, 3)[self._seat.whole(0, 3)]

    def _other(self, spec: Mapping[str, Any]) -> str:
        now = {each["every"] for each in spec["triggers"]}
        return next(each for each in self._world.scenario.intervals[::-1] if each not in now)

    def _apply_until_done(self) -> None:
        while True:
            try:
                term = self._leaders.term()
                with self._world.acting(term=term.number):
                    apply(self._seat.database, term, self._specs, self._uids, caps=self._caps, freeze=self._freeze)
            except (NotLeaderError, StoreUnavailableError):
                self._world.sleep(_AGAIN_SECONDS)
            else:
                return


def _minding(action: str) -> list[dict[str, str]]:
    return [{"name": FREEZE, "action": action}]


def declared_first(scenario: Scenario) -> dict[str, dict[str, Any]]:
    """Declare three jobs, two that are tried again when they fail, and one without a trigger."""
    first, second, _ = scenario.intervals
    return {
        "alpha": {"triggers": [{"name": "often", "every": first, "calendars": _minding("Skip")}], "retry": _RETRY},
        "beta": {
            "queue": NARROW,
            "triggers": [{"name": "often", "every": second, "anchor": ANCHOR, "calendars": _minding("Defer")}],
        },
        "gamma": {"queue": NARROW, "retry": _RETRY},
    }


def apply(
    database: Database,
    term: Term,
    specs: Mapping[str, Mapping[str, Any]],
    uids: Iterator[str],
    *,
    caps: tuple[int | None, int | None],
    freeze: Mapping[str, str] = OPEN,
) -> None:
    """Bring the store to what is declared, as a leader's pass does."""
    of_queue, of_all = caps
    narrow = queue(NARROW, **({} if of_queue is None else {"max": of_queue}))
    wanted: dict[str, Declared] = {name: job(name, **spec) for name, spec in specs.items()} | {
        NARROW: narrow,
        FREEZE: calendar(FREEZE, dict(freeze)),
    }
    pass_id = database.tx(lambda tx: passes.start(tx, term, "default", pass_id=None))
    known = {
        each.name: each for kind in KINDS for each in database.read(partial(definitions.listed, limit=100, kind=kind))
    }
    staged = [
        revisions.Staged(old.uid if old else next(uids), old.generation + 1 if old else 1, each, "jobs.yaml", 1)
        for name, each in wanted.items()
        if (old := known.get(name)) is None or old.digest != each.digest
    ]
    gone = [
        revisions.Removal(known[name].id, ("Job", name), OnDelete.DRAIN)
        for name in sorted(known.keys() - wanted.keys())
    ]
    database.tx(lambda tx: revisions.stage(tx, term, pass_id, staged))
    revision = _revision(gone)

    def flip(tx: Tx) -> None:
        revisions.flip(tx, term, pass_id, revision=revision, staged=staged)
        places.set_cap(tx, term, of_all)
        passes.conclude(tx, term, pass_id, passes.PassState.APPLIED, report={})

    database.tx(flip)


def _revision(gone: Sequence[revisions.Removal]) -> revisions.Revision:
    return revisions.Revision(
        source="default",
        path="jobs.d",
        host="here",
        revision="r1",
        tree_digest="t1",
        removals=gone,
        moved={},
        conditions={},
        actor="committer",
        on_time_us=_ON_TIME_US,
    )


def person(name: str, act: Callable[[], None]) -> Process:
    """Make a process of one thread that ends when it has acted, and begins anew when it was killed before."""
    return Process(name, lambda _process: [(name, act)], comes_back=False)
