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
from reconciler.model.lease import Term, Timings
from reconciler.model.policy import DEFAULT_MISFIRE, Misfire, OnDelete
from reconciler.model.tree import Tree
from reconciler.plan.diff import Unchanged, relative
from reconciler.plan.guard import DEFAULT_RULE, DeletionRule, Held, Withheld
from reconciler.reconcile.findings import conditions_of, is_at_rest, outcome_of, report_of
from reconciler.reconcile.planning import Planned, known_as, plan_against
from reconciler.reconcile.revision import UNREADABLE, Fingerprint, name_of, tree_digest
from reconciler.spec.files import SourceUnavailableError
from reconciler.spec.load import DEFAULT_LIMITS, load_tree
from reconciler.spec.source import Limits
from reconciler.store import passes, revisions
from reconciler.store.database import Database, Tx
from reconciler.store.passes import PassState
from reconciler.telemetry import Event, emit

_STAGE_BATCH: Final = 500
_IN_SYNC: Final = frozenset({PassState.APPLIED, PassState.UNCHANGED})


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
    outcome: Json
    """What it left open; see `outcome_of`."""

    @property
    def is_clean(self) -> bool:
        """Whether the store holds exactly what the files declare: nothing refused, held, withheld or kept."""
        return self.state in _IN_SYNC and not self.reason


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
        last: Ended | None = None,
    ) -> Ended | None:
        """Make one pass, a requested one or one of the leader's own. Raises NotLeaderError.

        None, and nothing done, when the files are not those of `settled` any more. `last` is the pass before, over the
        same files: it is given again, and nothing written, when this one would change nothing and leave the same open.
        """
        planned, refusal = None, None
        try:
            tree = self._source.load()
        except SourceUnavailableError as fault:
            if settled not in {None, UNREADABLE}:
                return None
            outcome: Json = fault.refusal
            refusal = fault.refusal
        else:
            if settled is not None and tree_digest(tree) != settled.files:
                return None
            planned = plan_against(self._database, self._source.name, tree, self._source.deletions)
            refusal = self._refusal(planned, expect_digest)
            outcome = outcome_of(planned, refusal)
        if last is not None and outcome == last.outcome and (planned is None or is_at_rest(planned, refusal)):
            return last
        started = self._database.tx(lambda tx: passes.start(tx, term, self._source.name, pass_id=pass_id))
        if planned is None or refusal is not None:
            return self._refuse(term, started, refusal or "", planned, outcome=outcome)
        return self._apply(term, started, planned, outcome)

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

    def _apply(self, term: Term, pass_id: int, planned: Planned, outcome: Json) -> Ended:
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
        return Ended(pass_id, state, reason, report, outcome)

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
            conditions=conditions_of(planned),
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

    def _refuse(self, term: Term, pass_id: int, reason: str, planned: Planned | None, *, outcome: Json) -> Ended:
        report = report_of(planned, reason) if planned else {"error": reason}
        held = planned.plan.ruling if planned else None
        conditions = conditions_of(planned) if planned else {}

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
        return Ended(pass_id, PassState.REFUSED, reason, report, outcome)

    def _tell(self, state: PassState, planned: Planned, reason: str) -> None:
        plan = planned.plan
        if plan.creates or plan.updates or plan.prunes:
            emit(PassEnded(self._source.name, state, len(plan.creates), len(plan.updates), len(plan.prunes)))
        if planned.tree.errors or reason:
            emit(PassRefused(self._source.name, state, len(planned.tree.errors), reason))


def _on_delete(document: Mapping[str, Json]) -> OnDelete:
    """Read what a stored declaration says about its runs; a malformed one must not stop the pass (X2)."""
    spec = document.get("spec")
    is_cancel = isinstance(spec, Mapping) and spec.get("onDelete") == OnDelete.CANCEL
    return OnDelete.CANCEL if is_cancel else OnDelete.DRAIN


def _state(planned: Planned, *, writes: bool) -> PassState:
    if planned.tree.errors:
        return PassState.INVALID
    return PassState.APPLIED if writes else PassState.UNCHANGED
