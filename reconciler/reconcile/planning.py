"""A plan against the live store: what the dry run prints and what a pass then does, made by the same code (G10)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.clock import SECOND_US
from reconciler.errors import Problem, in_order
from reconciler.model.kinds import Key
from reconciler.model.tree import Tree
from reconciler.plan.diff import Plan, Stored, plan_for
from reconciler.plan.guard import DEFAULT_RULE, DeletionRule
from reconciler.store import definitions, passes
from reconciler.store.database import Database, Tx
from reconciler.store.definitions import StoredDefinition


@dataclass(frozen=True, slots=True)
class Facts:
    """What the store knows of a source when a plan is made; `path` is where its files lay last time."""

    stored: Sequence[StoredDefinition]
    recent_deletions: int
    approved: frozenset[str]
    owners: dict[Key, str]
    path: str | None


@dataclass(frozen=True, slots=True)
class Planned:
    """A tree, less what belongs to other sources, and its plan."""

    tree: Tree
    plan: Plan
    facts: Facts


def plan_against(database: Database, source: str, tree: Tree, rule: DeletionRule = DEFAULT_RULE) -> Planned:
    """Plan a tree against the managed set of its source; `rule` is the deletion guard's. Writes nothing."""
    names = [each.key for each in tree.definitions]
    facts = database.read(lambda tx: _facts(tx, source, names, rule))
    owned = _without_foreign(tree, source, facts.owners)
    stored = [_stored(each, tree.root) for each in facts.stored]
    plan = plan_for(owned, stored, recent_deletions=facts.recent_deletions, approved=facts.approved, rule=rule)
    return Planned(owned, plan, facts)


def known_as(path: Path) -> str:
    """Give the path by which a source is recognised: absolute, its links as they are.

    A link that is swapped at every sync (git-sync, a mounted ConfigMap) is one and the same source.
    """
    return os.path.abspath(path)  # noqa: PTH100 - Path.absolute keeps `..`, Path.resolve follows links


def _facts(tx: Tx, source: str, names: Sequence[Key], rule: DeletionRule) -> Facts:
    since_us = tx.now_us() - round(rule.window_seconds * SECOND_US)
    known = passes.source_of(tx, source)
    return Facts(
        stored=definitions.of_source(tx, source),
        recent_deletions=definitions.deletions_since(tx, source, since_us),
        approved=frozenset(passes.approved(tx)),
        owners=definitions.owners_of(tx, names, apart_from=source),
        path=None if known is None else known.path,
    )


def _without_foreign(tree: Tree, source: str, owners: dict[Key, str]) -> Tree:
    """Refuse names that another source owns, naming both."""
    if not owners:
        return tree
    mine, problems, broken, faults = [], list(tree.problems), dict(tree.broken_names), dict(tree.faults)
    for each in tree.definitions:
        owner = owners.get(each.key)
        if owner is None:
            mine.append(each)
            continue
        kind, name = each.key
        what = f'{kind.lower()} "{name}" of source "{source}" belongs to source "{owner}" already'
        problem = Problem("name.owned", each.place, "metadata.name", what, "Rename one of the two")
        problems.append(problem)
        broken[each.key], faults[each.key] = each.place, [problem]
    return dataclasses.replace(tree, definitions=mine, problems=in_order(problems), broken_names=broken, faults=faults)


def _stored(each: StoredDefinition, root: str) -> Stored:
    return Stored(
        uid=each.uid,
        kind=each.kind,
        name=each.name,
        generation=each.generation,
        digest=each.digest,
        document=each.document,
        file=f"{root.rstrip('/')}/{each.file}",
        line=each.line,
    )
