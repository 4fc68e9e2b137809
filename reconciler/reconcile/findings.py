"""What a pass found, for whoever asks later: its report, and why a definition's file is not applied."""

from __future__ import annotations

from typing import Final

from reconciler.model.definition import Json
from reconciler.model.kinds import label
from reconciler.model.tree import Tree
from reconciler.plan.diff import Broken, Plan, Unchanged
from reconciler.plan.guard import Held, Withheld
from reconciler.reconcile.planning import Planned
from reconciler.spec.report import one_line, problem_facts

_REPORTED_PROBLEMS: Final = 200
_OPEN: Final = ("withheld", "held", "kept", "reason", "problemCount", "problems")


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


def conditions_of(planned: Planned) -> dict[str, str | None]:
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


def is_at_rest(planned: Planned, refusal: str | None) -> bool:
    """Tell whether a pass would leave every definition, its place and its condition as they are."""
    plan = planned.plan
    moved = any(isinstance(each, Unchanged) and each.has_moved for each in plan.changes)
    applies = refusal is None and (moved or plan.creates or plan.updates or plan.prunes)
    return not (applies or conditions_of(planned))


def outcome_of(planned: Planned, refusal: str | None) -> Json:
    """Tell what a pass leaves open: two that leave the same open, and change nothing, are one to whoever looks."""
    report = report_of(planned, refusal or "")
    still_open: dict[str, Json] = {key: report[key] for key in _OPEN}
    return {**still_open, "plan": planned.plan.digest if refusal else None}


def _degraded(broken: Broken, tree: Tree) -> str:
    """Say where a definition is broken, what is wrong and how to mend it: the first of its problems."""
    faults = tree.faults.get(broken.key, ())
    if not faults:
        return f"{broken.place} is invalid; the last good version goes on"
    first = f"{faults[0].rule}, the first of {len(faults)} problems" if len(faults) > 1 else faults[0].rule
    return f"{one_line(faults[0])} ({first}; the last good version goes on)"


def _first(tree: Tree) -> str:
    """Name the place of the first error; where there is none, what could not be read in full."""
    return str(tree.errors[0].place) if tree.errors else tree.root
