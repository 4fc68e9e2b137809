"""The difference between what a tree declares and what the store holds, and the plan made of it.

Laws: planned twice with nothing changed, a plan is empty (G1); it depends on the two states only, not on how they came
about (G2); a broken definition changes nothing of itself: its last good version goes on (G4).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import Place
from reconciler.model.definition import Json, canonical, digest_of
from reconciler.model.kinds import Key
from reconciler.model.tree import Definition, Tree, flatten
from reconciler.plan.guard import DEFAULT_RULE, Allowed, DeletionRule, Held, Ruling, Withheld, deletion_digest, judge


@dataclass(frozen=True, slots=True)
class Stored:
    """A live definition of the store, as far as a plan needs it."""

    uid: str
    kind: str
    name: str
    generation: int
    digest: str
    document: Mapping[str, Json]
    file: str
    line: int

    @property
    def key(self) -> Key:
        """What it is known by."""
        return self.kind, self.name


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of an update; None means the field is not there. `line` is in the new file, or None for a removal.

    `inherited` says which defaults the new value comes from, and where these stand.
    """

    path: str
    before: Json
    after: Json
    line: int | None
    inherited: str | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """Declared, and not in the store."""

    definition: Definition


@dataclass(frozen=True, slots=True)
class Update:
    """Declared differently from what the store holds: a new generation."""

    definition: Definition
    stored: Stored
    fields: Sequence[FieldChange]


@dataclass(frozen=True, slots=True)
class Delete:
    """In the store, and no longer declared."""

    stored: Stored


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Declared as it is stored; only its place may differ."""

    definition: Definition
    stored: Stored

    @property
    def has_moved(self) -> bool:
        """Whether it stands elsewhere now, which changes no generation (G9)."""
        return (self.definition.place.file, self.definition.place.line) != (self.stored.file, self.stored.line)


@dataclass(frozen=True, slots=True)
class Broken:
    """Declared, but invalid: the stored version goes on, or there is none yet."""

    key: Key
    place: Place
    stored: Stored | None


Change = Create | Update | Delete | Unchanged | Broken


@dataclass(frozen=True, slots=True)
class Plan:
    """What applying a tree would do. `digest` names exactly these changes; `ruling` is the deletion guard's word."""

    changes: Sequence[Change]
    ruling: Ruling
    digest: str

    @property
    def creates(self) -> list[Create]:
        """What will be made."""
        return [change for change in self.changes if isinstance(change, Create)]

    @property
    def updates(self) -> list[Update]:
        """What will get a new generation."""
        return [change for change in self.changes if isinstance(change, Update)]

    @property
    def deletes(self) -> list[Delete]:
        """What is no longer declared, whether or not the guard lets it go."""
        return [change for change in self.changes if isinstance(change, Delete)]

    @property
    def prunes(self) -> list[Delete]:
        """What will really be pruned: nothing unless the guard allows it."""
        return self.deletes if isinstance(self.ruling, Allowed) else []

    @property
    def is_held(self) -> bool:
        """Whether the whole revision waits for an approval."""
        return isinstance(self.ruling, Held)

    @property
    def has_changes(self) -> bool:
        """Whether applying would write anything but places."""
        return bool(self.creates or self.updates or self.deletes)


def plan_for(
    tree: Tree,
    stored: Sequence[Stored],
    *,
    recent_deletions: int,
    approved: Collection[str],
    rule: DeletionRule = DEFAULT_RULE,
) -> Plan:
    """Plan a tree against the managed set of its source.

    `recent_deletions` counts what was pruned from the source within the guard's window, `approved` holds the digests
    of approved deletion sets.
    """
    changes = diff(tree, stored)
    deleted = [change.stored.uid for change in changes if isinstance(change, Delete)]
    ruling = judge(
        deleted,
        managed=len(stored),
        recent=recent_deletions,
        is_empty=not tree.definitions and not tree.broken_names,
        errors=len(tree.errors),
        is_complete=tree.complete,
        approved=approved,
        rule=rule,
    )
    return Plan(changes, ruling, digest_of([_fact(change) for change in changes]))


def diff(tree: Tree, stored: Sequence[Stored]) -> list[Change]:
    """Say for everything that has a name what must change, so that the store holds exactly what the tree declares."""
    desired = {each.key: each for each in tree.definitions}
    actual = {each.key: each for each in stored}
    changes: list[Change] = []
    for key in sorted({*desired, *actual, *tree.broken_names}):
        have = actual.get(key)
        want = desired.get(key)
        if key in tree.broken_names:
            changes.append(Broken(key, tree.broken_names[key], have))
        elif want is None:
            changes += [Delete(have)] if have is not None else []
        elif have is None:
            changes.append(Create(want))
        elif _is_same(want, have):
            changes.append(Unchanged(want, have))
        else:
            changes.append(Update(want, have, _field_changes(want, have)))
    return changes


def _is_same(want: Definition, have: Stored) -> bool:
    """Compare what is declared, and what it comes to: a setting may change the one without the other."""
    return want.declared.digest == have.digest and canonical(want.declared.document) == canonical(have.document)


def relative(file: str, root: str) -> str:
    """Give a file as the store keeps it: from its source's root, so that the same tree read elsewhere is no move."""
    return file.removeprefix(f"{root.rstrip('/')}/")


def _field_changes(want: Definition, have: Stored) -> list[FieldChange]:
    """List the fields that differ, in the order of their paths."""
    after, before = dict(flatten(want.declared.document)), dict(flatten(have.document))
    return [
        FieldChange(
            path,
            before.get(path),
            after.get(path),
            want.lines.get(path),
            want.inherited.get(path) if path in after else None,
        )
        for path in sorted(after.keys() | before.keys())
        if (path in before) != (path in after) or canonical(before[path]) != canonical(after[path])  # True is not 1
    ]


def _fact(change: Change) -> list[Json]:
    """Give what of a change goes into the plan's digest: what it does to which name, from which content to which.

    Nothing that only a store knows: a plan against the commit that is applied has the digest of the plan against the
    store, so what was looked at in CI can be applied with `--expect-digest`.
    """
    match change:
        case Create(definition):
            return ["create", *definition.key, digest_of(definition.declared.document)]
        case Update(definition, stored):
            return ["update", *stored.key, digest_of(stored.document), digest_of(definition.declared.document)]
        case Delete(stored):
            return ["delete", *stored.key, digest_of(stored.document)]
        case Unchanged(_, stored):
            return ["keep", *stored.key, digest_of(stored.document)]
        case Broken(key, _, stored):
            return ["broken", *key, digest_of(stored.document) if stored else None]


__all__ = [
    "Allowed",
    "Broken",
    "Change",
    "Create",
    "Delete",
    "FieldChange",
    "Held",
    "Plan",
    "Stored",
    "Unchanged",
    "Update",
    "Withheld",
    "deletion_digest",
    "diff",
    "plan_for",
]
