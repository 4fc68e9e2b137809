"""The cast of the store's tests: a store with a leader, jobs to declare, nodes that claim and finish."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reconciler.clock import SECOND_US
from reconciler.model.definition import Job, job_from
from reconciler.model.kinds import KINDS, Declared, Key, declared_from, key_of
from reconciler.model.lease import Session, Term
from reconciler.model.policy import DEFAULT_MISFIRE, Misfire, OnDelete
from reconciler.model.run import AttemptOutcome, Claim, Outcome
from reconciler.store import (
    catchup,
    claiming,
    claims,
    definitions,
    leader,
    nodes,
    passes,
    pauses,
    queries,
    revisions,
    runs,
    slots,
)
from reconciler.store.database import Database
from tests.turned import TurnedClock

LEASE_US = 30 * SECOND_US
TTL_US = 15 * SECOND_US
ON_TIME_US = 20 * SECOND_US
AHEAD_US = 5 * SECOND_US


def job(name: str, **spec: Any) -> Job:
    """Declare a job; `spec` are fields of its spec, `every="10s"` stands for one trigger."""
    if "every" in spec:
        spec["triggers"] = [{"every": spec.pop("every")}]
    document = {"handler": {"type": "slow"}, **spec}
    return job_from({"apiVersion": "reconciler/v1", "kind": "Job", "metadata": {"name": name}, "spec": document})


def queue(name: str, **spec: Any) -> Declared:
    """Declare a queue; `spec` are fields of its spec."""
    return declared_from({"apiVersion": "reconciler/v1", "kind": "Queue", "metadata": {"name": name}, "spec": spec})


def calendar(name: str, *windows: dict[str, Any], **spec: Any) -> Declared:
    """Declare a calendar of these windows; `spec` are other fields of its spec."""
    document = {"windows": list(windows), **spec}
    return declared_from(
        {"apiVersion": "reconciler/v1", "kind": "Calendar", "metadata": {"name": name}, "spec": document}
    )


@dataclass
class Store:
    """A migrated store, a turned clock, and short words for the protocol's steps."""

    database: Database
    clock: TurnedClock
    term: Term = field(init=False)
    serial: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.lead("leader-a")

    def lead(self, owner: str) -> Term | None:
        won = self.database.tx(lambda tx: leader.acquire(tx, owner, ttl_us=TTL_US))
        if won is not None:
            self.term = won
        return won

    def apply(
        self,
        *declared: Declared,
        remove: Sequence[str] = (),
        remove_queues: Sequence[str] = (),
        remove_calendars: Sequence[str] = (),
    ) -> None:
        """Reconcile by hand: create or change what is declared, prune `remove` (jobs), queues and calendars."""
        known = {key: each for kind in KINDS for key, each in self.live(kind)}
        staged = []
        for each in declared:
            old = known.get(key_of(each))
            uid = old.uid if old else f"uid-{next(self.serial)}"
            staged.append(revisions.Staged(uid, old.generation + 1 if old else 1, each, "jobs.yaml", 1))
        removals = [
            revisions.Removal(known["Job", name].id, ("Job", name), job_from(known["Job", name].document).on_delete)
            for name in remove
        ]
        others = [("Queue", name) for name in remove_queues] + [("Calendar", name) for name in remove_calendars]
        removals += [revisions.Removal(known[key].id, key, OnDelete.DRAIN) for key in others]
        term = self.term
        pass_id = self.database.tx(lambda tx: passes.start(tx, term, "default", pass_id=None))
        self.database.tx(lambda tx: revisions.stage(tx, term, pass_id, staged))
        change = revisions.Revision(
            source="default",
            path="jobs.d",
            host="here",
            revision="r1",
            tree_digest="t1",
            removals=removals,
            moved={},
            conditions={},
            actor="tests",
            on_time_us=ON_TIME_US,
        )

        def flip(tx: Any) -> None:
            revisions.flip(tx, term, pass_id, revision=change, staged=staged)
            passes.conclude(tx, term, pass_id, passes.PassState.APPLIED, report={})

        self.database.tx(flip)

    def live(self, kind: str) -> list[tuple[Key, definitions.StoredDefinition]]:
        """The definitions of a kind."""
        found = self.database.read(lambda tx: definitions.listed(tx, limit=1000, kind=kind))
        return [((kind, each.name), each) for each in found]

    def settle(self, misfire: Misfire = DEFAULT_MISFIRE) -> slots.Settled:
        return self.database.tx(
            lambda tx: slots.settle(tx, self.term, slots.Bounds(AHEAD_US, ON_TIME_US, 100, misfire))
        )

    def pause(self, name: str, *, reason: str = "", until_us: int | None = None) -> pauses.Paused:
        return self.database.tx(lambda tx: pauses.pause(tx, name, actor="ops", reason=reason, until_us=until_us))

    def resume(self, name: str, *, catch_up: bool = False) -> None:
        self.database.tx(lambda tx: pauses.resume(tx, name, actor="ops", catch_up=catch_up))

    def end_pauses(self) -> list[catchup.Ended]:
        bounds = slots.Bounds(AHEAD_US, ON_TIME_US, 100)
        return self.database.tx(lambda tx: catchup.end_pauses(tx, self.term, bounds))

    def expire(self) -> list[int]:
        return self.database.tx(lambda tx: runs.expire(tx, self.term, limit=100))

    def promote(self) -> int:
        awoken = self.database.tx(lambda tx: runs.promote(tx, self.term, limit=1000))
        return awoken.due + awoken.retried

    def reap(self) -> runs.Reaped:
        self.database.tx(lambda tx: nodes.bury_expired(tx, self.term, limit=100))
        return self.database.tx(lambda tx: runs.reap(tx, self.term, limit=100))

    def trigger(self, name: str, **options: Any) -> int:
        return self.database.tx(lambda tx: runs.create(tx, name, actor="tests", **options))[0]

    def node(self, name: str, *, queues: Sequence[str] | None = None, handlers: Sequence[str] = ("slow",)) -> Session:
        secret = f"secret-{next(self.serial)}"
        return self.database.tx(
            lambda tx: nodes.register(
                tx,
                name,
                host="here",
                pid=1,
                secret=secret,
                queues=queues,
                handlers=handlers,
                tags=(),
                slots=4,
                lease_us=LEASE_US,
            )
        )

    def claim(self, node: Session, limit: int = 1, *, queues: Sequence[str] | None = None) -> list[Claim]:
        return self.database.tx(lambda tx: claiming.claim(tx, node, limit=limit, handlers=["slow"], queues=queues))

    def finish(self, node: Session, claim: Claim, result: AttemptOutcome = AttemptOutcome.SUCCEEDED) -> bool:
        outcome = Outcome(claim.run_id, claim.fence, claim.attempt, result, started_us=0, finished_us=1)
        return bool(self.database.tx(lambda tx: claims.finish(tx, node, [outcome])))

    def run(self, run_id: int) -> queries.RunRow:
        return self.database.read(lambda tx: queries.run_shown(tx, run_id))

    def runs(self, name: str | None = None) -> list[queries.RunRow]:
        """All runs, the oldest first."""
        return self.database.read(lambda tx: queries.runs_listed(tx, limit=10_000, job=name))[::-1]

    def ledger(self, name: str | None = None) -> list[queries.SkippedSlot]:
        """All skipped slots, the oldest first."""
        return self.database.read(lambda tx: queries.skipped_slots(tx, limit=10_000, job=name))[::-1]
