"""What is declared, as the store holds it: current definitions and every version a run may still be bound to."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select

from reconciler.errors import NotFoundError
from reconciler.model.definition import Job, Json, job_from
from reconciler.model.kinds import Key
from reconciler.store.database import Tx
from reconciler.store.tables import definition_versions, definitions, requirements
from reconciler.store.trigger_tables import triggers


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """A live definition of the store, with the document of its current generation."""

    id: int
    uid: str
    kind: str
    name: str
    source: str
    generation: int
    observed_generation: int
    digest: str
    document: Mapping[str, Json]
    file: str
    line: int
    revision: str
    suspended: bool
    queue: str | None
    condition: str | None
    created_us: int
    updated_us: int


@dataclass(frozen=True, slots=True)
class StoredTrigger:
    """A trigger of the store: where its cursor stands and when it fires next."""

    id: int
    definition_id: int
    name: str
    timing: str
    timing_document: Mapping[str, Json]
    rules: str
    suspended: bool
    activation: int
    activated_us: int
    cursor_us: int
    settled_us: int
    next_fire_us: int | None
    removed_us: int | None


def of_source(tx: Tx, source: str) -> list[StoredDefinition]:
    """Give the managed set of a source: the live definitions it owns. Its size is bounded by the tree limits."""
    return [_definition(row) for row in tx.execute(_live().where(definitions.c.source == source))]


def owners_of(tx: Tx, keys: Sequence[Key], *, apart_from: str) -> dict[Key, str]:
    """Tell which of these definitions belong to another source, and to which."""
    given = tx.rows("given", {"kind": str, "name": str}, sorted(keys))
    held = (
        select(definitions.c.kind, definitions.c.name, definitions.c.source)
        .join(given, (given.c.kind == definitions.c.kind) & (given.c.name == definitions.c.name))
        .where(definitions.c.deleted_us.is_(None), definitions.c.source != apart_from)
    )
    return {(row.kind, row.name): row.source for row in tx.execute(held)}


def listed(tx: Tx, *, limit: int, kind: str = Job.kind) -> list[StoredDefinition]:
    """List live definitions of a kind by name."""
    query = _live().where(definitions.c.kind == kind).order_by(definitions.c.name)
    return [_definition(row) for row in tx.execute(query.limit(limit))]


def count(tx: Tx) -> int:
    """Count live definitions."""
    return int(tx.execute(select(func.count()).where(definitions.c.deleted_us.is_(None))).scalar_one())


def named(tx: Tx, name: str) -> StoredDefinition:
    """Find a live job by its name. Raises NotFoundError."""
    row = tx.execute(_live().where(definitions.c.kind == "Job", definitions.c.name == name)).first()
    if row is None:
        raise NotFoundError(f"there is no job {name!r}; `reconciler get jobs` lists them")
    return _definition(row)


def deletions_since(tx: Tx, source: str, since_us: int) -> int:
    """Count what was pruned from a source since an instant, for the deletion guard's rolling window."""
    gone = select(func.count()).where(definitions.c.source == source, definitions.c.deleted_us >= since_us)
    return int(tx.execute(gone).scalar_one())


def triggers_of(tx: Tx, definition_ids: Sequence[int]) -> list[StoredTrigger]:
    """Give the triggers of some definitions, removed ones too."""
    query = select(triggers).where(tx.among(triggers.c.definition_id, definition_ids)).order_by(triggers.c.id)
    return [_trigger(row) for row in tx.execute(query)]


def load_version(tx: Tx, definition_id: int, generation: int) -> Job:
    """Load the very version a run is bound to; it never changes, so callers may keep it. Raises NotFoundError."""
    query = select(definition_versions.c.document).where(
        definition_versions.c.definition_id == definition_id, definition_versions.c.generation == generation
    )
    document = tx.execute(query).scalar_one_or_none()
    if document is None:
        raise NotFoundError(f"version {generation} of definition {definition_id} is not in the store")
    return job_from(json.loads(document))


def find_version(tx: Tx, definition_id: int, generation: int) -> Job | None:
    """Load a version, or None where it is missing or malformed: one bad row must not stop the runs beside it (X2)."""
    try:
        return load_version(tx, definition_id, generation)
    except (NotFoundError, KeyError, TypeError, ValueError):
        return None


def find_versions(tx: Tx, keys: Collection[tuple[int, int]]) -> dict[tuple[int, int], Job]:
    """Load many versions, by definition and generation; those that are missing or malformed are left out (X2)."""
    given = tx.rows("given", {"definition_id": int, "generation": int}, sorted(keys))
    query = select(definition_versions).join(
        given,
        (given.c.definition_id == definition_versions.c.definition_id)
        & (given.c.generation == definition_versions.c.generation),
    )
    found: dict[tuple[int, int], Job] = {}
    for row in tx.execute(query):
        with contextlib.suppress(KeyError, TypeError, ValueError):
            found[row.definition_id, row.generation] = job_from(json.loads(row.document))
    return found


def trigger_names(tx: Tx, trigger_ids: Collection[int]) -> dict[int, str]:
    """Give the names of many triggers, by id."""
    query = select(triggers.c.id, triggers.c.name).where(tx.among(triggers.c.id, trigger_ids))
    return {row.id: row.name for row in tx.execute(query)}


def trigger_name(tx: Tx, trigger_id: int) -> str | None:
    """Give a trigger's name; with a version of its definition it leads to the trigger's parameters."""
    name = tx.execute(select(triggers.c.name).where(triggers.c.id == trigger_id)).scalar_one_or_none()
    return None if name is None else str(name)


def _live() -> Select[Any]:
    return (
        select(definitions, definition_versions.c.document, requirements.c.queue)
        .join(
            definition_versions,
            (definition_versions.c.definition_id == definitions.c.id)
            & (definition_versions.c.generation == definitions.c.generation),
        )
        .outerjoin(requirements, requirements.c.id == definitions.c.requirement_id)
        .where(definitions.c.deleted_us.is_(None))
    )


def _definition(row: Any) -> StoredDefinition:
    return StoredDefinition(
        id=row.id,
        uid=row.uid,
        kind=row.kind,
        name=row.name,
        source=row.source,
        generation=row.generation,
        observed_generation=row.observed_generation,
        digest=row.digest,
        document=_document(row.document),
        file=row.file,
        line=row.line,
        revision=row.revision,
        suspended=bool(row.suspended),
        queue=row.queue,
        condition=row.condition,
        created_us=row.created_us,
        updated_us=row.updated_us,
    )


def _document(text: str) -> Mapping[str, Json]:
    """Read a stored document; a malformed one is empty, so that the files replace it and nothing else stops (X2)."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _trigger(row: Any) -> StoredTrigger:
    return StoredTrigger(
        id=row.id,
        definition_id=row.definition_id,
        name=row.name,
        timing=row.timing,
        timing_document=json.loads(row.timing),
        rules=row.rules,
        suspended=bool(row.suspended),
        activation=row.activation,
        activated_us=row.activated_us,
        cursor_us=row.cursor_us,
        settled_us=row.settled_us,
        next_fire_us=row.next_fire_us,
        removed_us=row.removed_us,
    )
