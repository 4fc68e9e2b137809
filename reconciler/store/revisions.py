"""How a revision of a source becomes the desired state: staged in bounded transactions, then flipped in one.

Law G3: whatever dies, and whenever, the store holds the whole old or the whole new revision. Staging writes only rows
that nothing else reads. The flip is set-based and short; the leader's guard stands at its start, so a takeover waits
for it or it does not happen. Its instant is the store's clock at its start: slots up to it belong to the old
activation, later ones to the new (S6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, delete, insert, literal, null, select, update

from reconciler.errors import NotLeaderError
from reconciler.model.definition import Job, Json, canonical
from reconciler.model.kinds import Calendar, Declared, Key, Queue, key_of, label
from reconciler.model.lease import Term
from reconciler.model.policy import DEFAULT_MISFIRE, Misfire, OnDelete
from reconciler.model.run import HELD, LIVE, RunState, SkipReason
from reconciler.store import activations, audit, calendars, holds, queues, replan, slots
from reconciler.store.database import Tx, in_states
from reconciler.store.history import Ending, end
from reconciler.store.leader import guard
from reconciler.store.tables import (
    definition_versions,
    definitions,
    passes,
    requirements,
    runs,
    sources,
    staged_definitions,
)
from reconciler.store.trigger_tables import triggers

_SETTLE_LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class Staged:
    """A definition to create or change: its uid, and the generation it gets."""

    uid: str
    generation: int
    declared: Declared
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Removal:
    """A definition to prune, and what its declaration says about its runs."""

    definition_id: int
    key: Key
    on_delete: OnDelete


@dataclass(frozen=True, slots=True)
class Revision:
    """Everything a flip needs besides what is staged.

    `moved` holds uid -> file and line of definitions that only changed their place; `conditions` uid -> why its file
    is not applied, for every definition whose condition changes (None clears it).
    """

    source: str
    path: str
    host: str
    revision: str
    tree_digest: str
    removals: Sequence[Removal]
    moved: Mapping[str, tuple[str, int]]
    conditions: Mapping[str, str | None]
    actor: str
    on_time_us: int
    misfire: Misfire = DEFAULT_MISFIRE


def stage(tx: Tx, term: Term, pass_id: int, batch: Sequence[Staged]) -> None:
    """Stage some definitions of a pass; nothing acts on them before the flip."""
    guard(tx, term)
    columns = {
        "kind": str,
        "name": str,
        "uid": str,
        "generation": int,
        "digest": str,
        "document": str,
        "file": str,
        "line": int,
        "suspended": bool,
        "queue": str,
        "handler": str,
        "priority": int,
    }
    rows = [
        (
            *key_of(each.declared),
            each.uid,
            each.generation,
            each.declared.digest,
            canonical(each.declared.document),
            each.file,
            each.line,
            *_acting(each.declared),
        )
        for each in batch
    ]
    given = tx.rows("given", columns, rows)
    values = select(literal(pass_id, BigInteger()), *(given.c[name] for name in columns))
    tx.execute(insert(staged_definitions).from_select(["pass_id", *columns], values))


def _acting(declared: Declared) -> tuple[Json, ...]:
    """Give what of a definition stands in columns, since statements look at it."""
    if isinstance(declared, Job):
        return declared.suspend, declared.queue, declared.handler.type, declared.priority
    return isinstance(declared, Queue) and declared.suspend, None, None, None


def flip(tx: Tx, term: Term, pass_id: int, *, revision: Revision, staged: Sequence[Staged]) -> None:
    """Make what was staged the desired state, prune the removals, and move triggers and waiting runs along.

    `staged` is what was staged before. Raises NotLeaderError when the term is over, or the pass is no longer ours.
    """
    guard(tx, term)
    _still_running(tx, term, pass_id)
    jobs = {each.uid: each.declared for each in staged if isinstance(each.declared, Job)}
    now_us = tx.now_us()
    gone = [each.definition_id for each in revision.removals]
    touched = [each.declared for each in staged if isinstance(each.declared, Calendar)]
    minding = {each.definition_id for each in calendars.minding(tx, {each.name for each in touched})}
    _settle_old(tx, term, [*({*_ids_of(tx, jobs)} | minding), *gone], now_us=now_us, revision=revision)
    suspended = holds.suspended(tx, _ids_of(tx, jobs))
    _write_definitions(tx, pass_id, revision, now_us)
    queues.declare(
        tx,
        [each.declared for each in staged if isinstance(each.declared, Queue)],
        gone=_names(revision.removals, Queue.kind),
    )
    changed = calendars.declare(tx, touched, gone=_names(revision.removals, Calendar.kind), now_us=now_us)
    ids = _ids_of(tx, jobs)
    activations.follow(tx, term, {definition_id: jobs[uid] for definition_id, uid in ids.items()}, now_us)
    replan.replan(tx, term, changed, now_us)
    holds.end_suspensions(tx, term, suspended - holds.suspended(tx, ids), now_us)
    _prune(tx, revision.removals, now_us)
    _note_places_and_conditions(tx, revision)
    _note_source(tx, revision, now_us)
    tx.execute(delete(staged_definitions).where(staged_definitions.c.pass_id == pass_id))
    audit.record(
        tx,
        actor=revision.actor,
        action="revision.applied",
        subject=f"source/{revision.source}",
        detail={
            "revision": revision.revision,
            "pass": pass_id,
            "changed": len(staged),
            "pruned": [label(each.key) for each in revision.removals],
        },
    )


def _names(removals: Sequence[Removal], kind: str) -> list[str]:
    return [name for each_kind, name in (each.key for each in removals) if each_kind == kind]


def _still_running(tx: Tx, term: Term, pass_id: int) -> None:
    mine = select(passes.c.id).where(passes.c.id == pass_id, passes.c.state == "Running", passes.c.term == term.number)
    if tx.execute(mine).first() is None:
        raise NotLeaderError(f"pass {pass_id} was taken over; the new leader reads the files again")


def _ids_of(tx: Tx, jobs: Mapping[str, Job]) -> dict[int, str]:
    """Give id -> uid of those of the staged definitions that exist."""
    known = select(definitions.c.id, definitions.c.uid).where(tx.among(definitions.c.uid, jobs))
    return {row.id: row.uid for row in tx.execute(known)}


def _settle_old(tx: Tx, term: Term, definition_ids: Sequence[int], *, now_us: int, revision: Revision) -> None:
    """Settle what the old declarations still owe up to now, before they change."""
    more = bool(definition_ids)
    while more:
        more = slots.settle(
            tx,
            term,
            slots.Bounds(0, revision.on_time_us, _SETTLE_LIMIT, revision.misfire),
            only=definition_ids,
            at_us=now_us,
        ).more


def _write_definitions(tx: Tx, pass_id: int, revision: Revision, now_us: int) -> None:
    staged = staged_definitions
    mine = staged.c.pass_id == pass_id
    wanted = select(staged.c.queue, staged.c.handler).where(mine, staged.c.handler.is_not(None)).distinct()
    tx.execute(tx.insert_new(requirements, ["queue", "handler"], wanted))
    needs = select(requirements.c.id).where(
        requirements.c.queue == staged.c.queue, requirements.c.handler == staged.c.handler
    )
    shared: dict[str, Any] = {
        "generation": staged.c.generation,
        "observed_generation": staged.c.generation,
        "digest": staged.c.digest,
        "file": staged.c.file,
        "line": staged.c.line,
        "revision": literal(revision.revision),
        "suspended": staged.c.suspended,
        "requirement_id": needs.correlate(staged).scalar_subquery(),
        "priority": staged.c.priority,
        "updated_us": literal(now_us, BigInteger()),
    }
    tx.execute(update(definitions).where(definitions.c.uid == staged.c.uid, mine).values(**shared, condition=null()))
    created: dict[str, Any] = {
        "uid": staged.c.uid,
        "kind": staged.c.kind,
        "name": staged.c.name,
        "source": literal(revision.source),
        "created_us": literal(now_us, BigInteger()),
        **shared,
    }
    known = select(definitions.c.id).where(definitions.c.uid == staged.c.uid).exists()
    fresh = select(*created.values()).select_from(staged).where(mine, ~known)
    tx.execute(insert(definitions).from_select(list(created), fresh))
    versions = (
        select(
            definitions.c.id,
            staged.c.generation,
            staged.c.digest,
            staged.c.document,
            literal(revision.revision),
            literal(now_us, BigInteger()),
        )
        .join_from(staged, definitions, definitions.c.uid == staged.c.uid)
        .where(mine)
    )
    columns = ["definition_id", "generation", "digest", "document", "revision", "applied_us"]
    tx.execute(insert(definition_versions).from_select(columns, versions))


def _prune(tx: Tx, removals: Sequence[Removal], now_us: int) -> None:
    """Disable definitions and keep their history (G6): waiting runs are cancelled, running ones go by `onDelete`."""
    if not removals:
        return
    gone = [each.definition_id for each in removals]
    tx.execute(update(definitions).where(tx.among(definitions.c.id, gone)).values(deleted_us=now_us))
    fired = select(triggers.c.id).where(tx.among(triggers.c.definition_id, gone), triggers.c.removed_us.is_(None))
    activations.remove(tx, list(tx.execute(fired).scalars()), now_us)
    waiting = select(runs.c.id).where(tx.among(runs.c.definition_id, gone), in_states(runs.c.state, LIVE - HELD))
    ids = tx.execute(waiting.order_by(runs.c.id).with_for_update()).scalars()
    reason = str(SkipReason.DEFINITION_REMOVED)
    end(tx, [Ending(run_id, RunState.CANCELLED, reason=reason) for run_id in ids])
    cancelled = [each.definition_id for each in removals if each.on_delete is OnDelete.CANCEL]
    if cancelled:
        held = tx.among(runs.c.definition_id, cancelled), in_states(runs.c.state, HELD)
        tx.execute(update(runs).where(*held).values(cancel_requested=True))


def _note_places_and_conditions(tx: Tx, revision: Revision) -> None:
    if revision.moved:
        given = tx.rows(
            "given",
            {"uid": str, "file": str, "line": int},
            [(uid, file, line) for uid, (file, line) in sorted(revision.moved.items())],
        )
        tx.execute(
            update(definitions)
            .where(definitions.c.uid == given.c.uid)
            .values(file=given.c.file, line=given.c.line, revision=revision.revision)
        )
    note_conditions(tx, revision.conditions)


def note_conditions(tx: Tx, conditions: Mapping[str, str | None]) -> None:
    """Say of definitions, by uid, why their files are not applied; None clears it. The caller has proved its term."""
    if conditions:
        given = tx.rows("given", {"uid": str, "condition": str}, sorted(conditions.items()))
        tx.execute(update(definitions).where(definitions.c.uid == given.c.uid).values(condition=given.c.condition))


def _note_source(tx: Tx, revision: Revision, now_us: int) -> None:
    facts = {
        "path": revision.path,
        "host": revision.host,
        "revision": revision.revision,
        "tree_digest": revision.tree_digest,
        "applied_us": now_us,
    }
    known = tx.execute(update(sources).where(sources.c.name == revision.source).values(**facts))
    if known.rowcount == 0:
        tx.execute(insert(sources).values(name=revision.source, **facts))
