"""One pass over a source: read the files, plan, rule, stage, flip; and say in the store how it went.

Whatever goes wrong, the last good set goes on: a pass that cannot read its source, is held by the deletion guard, or
finds another plan than it was asked for changes nothing.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from reconciler.clock import SECOND_US, Chance
from reconciler.model.definition import DEFAULT_TIME_ZONE, Json
from reconciler.model.kinds import label
from reconciler.model.lease import Term, Timings
from reconciler.model.policy import DEFAULT_MISFIRE, Misfire, OnDelete
from reconciler.model.tree import Tree
from reconciler.plan.diff import Broken, Plan, Unchanged, relative
from reconciler.plan.guard import DEFAULT_RULE, DeletionRule, Held, Withheld
from reconciler.reconcile.planning import Planned, known_as, plan_against
from reconciler.reconcile.revision import Fingerprint, name_of, tree_digest
from reconciler.spec.files import SourceUnavailableError
from reconciler.spec.load import DEFAULT_LIMITS, load_tree
from reconciler.spec.report import one_line, problem_facts
from reconciler.spec.source import Limits
from reconciler.store import passes, revisions
from reconciler.store.database import Database, Tx
from reconciler.store.passes import PassState
from reconciler.telemetry import Event, emit

_STAGE_BATCH: Final = 500
_REPORTED_PROBLEMS: Final = 200


@dataclass(frozen=True, slots=True)
class Source:
    """A directory of definitions under a name, and how it is read.

    `moved` says that its path may differ from the one the store knows, `time_zone` is that of triggers which name none,
    and `deletions` says how many may go at once.
    """

    name: str
    path: Path
    moved: bool = False
    limits: Limits = DEFAULT_LIMITS
    time_zone: str = DEFAULT_TIME_ZONE
    deletions: DeletionRule = DEFAULT_RULE

    def load(self) -> Tree:
        """Read the files. Raises SourceUnavailableError."""
        return load_tree(self.path, limits=self.limits, time_zone=self.time_zone)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a pass ended: `reason` says why it changed nothing, or less than was declared."""

    pass_id: int
    state: PassState
    reason: str
    report: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class PassEnded(Event):
    """A pass changed something."""

    source: str
    state: str
    created: int
    updated: int
    pruned: int


@dataclass(frozen=True, slots=True)
class PassRefused(Event):
    """A pass changed nothing, or less than was declared: somebody should look."""

    level: ClassVar[int] = logging.WARNING
    source: str
    state: str
    problems: int
    reason: str


class Applier:
    """Makes passes over one source under a leader's term."""

    def __init__(
        self,
        database: Database,
        source: Source,
        *,
        timings: Timings,
        chance: Chance,
        exclusive: threading.Lock,
        misfire: Misfire = DEFAULT_MISFIRE,
    ) -> None:
        """Keep the parts. `exclusive` keeps the leader's other duties away while a revision is flipped."""
        self._database = database
        self._source = source
        self._on_time_us = round(timings.on_time_seconds * SECOND_US)
        self._misfire = misfire
        self._chance = chance
        self._exclusive = exclusive

    def run(
        self,
        term: Term,
        *,
        settled: Fingerprint | None = None,
        pass_id: int | None = None,
        expect_digest: str | None = None,
    ) -> Ended | None:
        """Make one pass, a requested one or one of the leader's own. Raises NotLeaderError.

        None, and nothing done, when the files are not those of `settled` any more.
        """
        name = self._source.name
        try:
            tree = self._source.load()
        except SourceUnavailableError as fault:
            started = self._database.tx(lambda tx: passes.start(tx, term, name, pass_id=pass_id))
            return self._refuse(term, started, fault.refusal, None)
        if settled is not None and tree_digest(tree) != settled.files:
            return None
        started = self._database.tx(lambda tx: passes.start(tx, term, name, pass_id=pass_id))
        planned = plan_against(self._database, name, tree, self._source.deletions)
        if refusal := self._refusal(planned, expect_digest):
            return self._refuse(term, started, refusal, planned)
        return self._apply(term, started, planned)

    def _refusal(self, planned: Planned, expect_digest: str | None) -> str | None:
        """Say why a plan may not be applied; None when it may."""
        plan, known = planned.plan, planned.facts.path
        if known is not None and known != known_as(self._source.path) and not self._source.moved:
            return f"source {self._source.name!r} was applied from {known}; to move it for good, use --source-moved"
        if expect_digest is not None and expect_digest != plan.digest:
            return f"the plan is {plan.digest} now, not {expect_digest}: look at it again with --dry-run"
        if isinstance(plan.ruling, Held):
            return f"{plan.ruling.reason}: held until `reconciler approve {plan.ruling.digest}`"
        return None

    def _apply(self, term: Term, pass_id: int, planned: Planned) -> Ended:
        revision, staged = self._revision(term, planned), self._staged(planned)
        reason = planned.plan.ruling.reason if isinstance(planned.plan.ruling, Withheld) else ""
        writes = bool(
            staged or revision.removals or revision.moved or revision.conditions or revision.path != planned.facts.path
        )
        state = _state(planned, writes=writes)
        report = report_of(planned, reason)
        for at in range(0, len(staged), _STAGE_BATCH):
            batch = staged[at : at + _STAGE_BATCH]
            self._database.tx(partial(revisions.stage, term=term, pass_id=pass_id, batch=batch))

        def flip(tx: Tx) -> None:
            if writes:
                revisions.flip(tx, term, pass_id, revision=revision, staged=staged)
            passes.conclude(
                tx,
                term,
                pass_id,
                state,
                revision=revision.revision,
                plan_digest=planned.plan.digest,
                report=report,
            )

        with self._exclusive:
            self._database.tx(flip)
        self._tell(state, planned, reason)
        return Ended(pass_id, state, reason, report)

    def _revision(self, term: Term, planned: Planned) -> revisions.Revision:
        ids = {each.uid: each.id for each in planned.facts.stored}
        digest = tree_digest(planned.tree)
        return revisions.Revision(
            source=self._source.name,
            path=known_as(self._source.path),
            host=socket.gethostname(),
            revision=name_of(self._source.path, digest),
            tree_digest=digest,
            removals=[
                revisions.Removal(ids[each.stored.uid], each.stored.key, _on_delete(each.stored.document))
                for each in planned.plan.prunes
            ],
            moved={
                each.stored.uid: (relative(each.definition.place.file, planned.tree.root), each.definition.place.line)
                for each in planned.plan.changes
                if isinstance(each, Unchanged) and each.has_moved
            },
            conditions=_conditions(planned),
            actor=f"leader/{term.number}",
            on_time_us=self._on_time_us,
            misfire=self._misfire,
        )

    def _staged(self, planned: Planned) -> list[revisions.Staged]:
        root = planned.tree.root
        created = [(self._chance.token(), 1, each.definition) for each in planned.plan.creates]
        updated = [(each.stored.uid, each.stored.generation + 1, each.definition) for each in planned.plan.updates]
        return [
            revisions.Staged(uid, generation, each.declared, relative(each.place.file, root), each.place.line)
            for uid, generation, each in [*created, *updated]
        ]

    def _refuse(self, term: Term, pass_id: int, reason: str, planned: Planned | None) -> Ended:
        report = report_of(planned, reason) if planned else {"error": reason}
        held = planned.plan.ruling if planned else None
        conditions = _conditions(planned) if planned else {}

        def refuse(tx: Tx) -> None:
            passes.conclude(
                tx,
                term,
                pass_id,
                PassState.REFUSED,
                plan_digest=planned.plan.digest if planned else None,
                deletion_digest=held.digest if isinstance(held, Held) else None,
                report=report,
            )
            revisions.note_conditions(tx, conditions)

        self._database.tx(refuse)
        emit(PassRefused(self._source.name, PassState.REFUSED, len(planned.tree.errors) if planned else 0, reason))
        return Ended(pass_id, PassState.REFUSED, reason, report)

    def _tell(self, state: PassState, planned: Planned, reason: str) -> None:
        plan = planned.plan
        if plan.creates or plan.updates or plan.prunes:
            emit(PassEnded(self._source.name, state, len(plan.creates), len(plan.updates), len(plan.prunes)))
        if planned.tree.errors or reason:
            emit(PassRefused(self._source.name, state, len(planned.tree.errors), reason))


def report_of(planned: Planned, reason: str) -> dict[str, Json]:
    """Tell in JSON what a pass found: counts, the guard's word, and its problems (the first 200)."""
    plan, problems = planned.plan, planned.tree.problems
    return {
        "created": [label(each.definition.key) for each in plan.creates],
        "updated": [label(each.stored.key) for each in plan.updates],
        "pruned": [label(each.stored.key) for each in plan.prunes],
        "withheld": [label(each.stored.key) for each in plan.deletes] if isinstance(plan.ruling, Withheld) else [],
        "held": [label(each.stored.key) for each in plan.deletes] if plan.is_held else [],
        "kept": [label(each.key) for each in plan.changes if isinstance(each, Broken) and each.stored],
        "reason": reason,
        "problemCount": len(problems),
        "problems": [problem_facts(each) for each in problems[:_REPORTED_PROBLEMS]],
    }


def _on_delete(document: Mapping[str, Json]) -> OnDelete:
    """Read what a stored declaration says about its runs; a malformed one must not stop the pass (X2)."""
    spec = document.get("spec")
    is_cancel = isinstance(spec, Mapping) and spec.get("onDelete") == OnDelete.CANCEL
    return OnDelete.CANCEL if is_cancel else OnDelete.DRAIN


def _state(planned: Planned, *, writes: bool) -> PassState:
    if planned.tree.errors:
        return PassState.INVALID
    return PassState.APPLIED if writes else PassState.UNCHANGED


def _first(tree: Tree) -> str:
    """Name the place of the first error; where there is none, what could not be read in full."""
    return str(tree.errors[0].place) if tree.errors else tree.root


def _degraded(broken: Broken, tree: Tree) -> str:
    """Say where a definition is broken, what is wrong and how to mend it: the first of its problems."""
    faults = tree.faults.get(broken.key, ())
    if not faults:
        return f"{broken.place} is invalid; the last good version goes on"
    first = f"{faults[0].rule}, the first of {len(faults)} problems" if len(faults) > 1 else faults[0].rule
    return f"{one_line(faults[0])} ({first}; the last good version goes on)"


def _conditions(planned: Planned) -> dict[str, str | None]:
    """Say of each definition whose file is broken now, or no longer is, why its file is not applied."""
    plan: Plan = planned.plan
    waits = {
        Withheld: f"PruneWithheld: no longer declared, kept since files have errors (first: {_first(planned.tree)})",
        Held: "DeletionHeld: no longer declared, kept until its deletion is approved (reconciler get passes)",
    }.get(type(plan.ruling))
    wanted: dict[str, str | None] = {each.uid: None for each in planned.facts.stored}
    for each in plan.changes:
        if isinstance(each, Broken) and each.stored:
            wanted[each.stored.uid] = f"Degraded: {_degraded(each, planned.tree)}"
    for delete in plan.deletes if waits else ():
        wanted[delete.stored.uid] = waits
    known = {each.uid: each.condition for each in planned.facts.stored}
    pruned = {each.stored.uid for each in plan.prunes}
    return {uid: why for uid, why in wanted.items() if known[uid] != why and uid not in pruned}
