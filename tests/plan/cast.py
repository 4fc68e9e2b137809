"""The cast of the plan's tests: definitions, what the store holds of them, and trees."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.errors import Place, Problem
from reconciler.model.definition import job_from
from reconciler.model.tree import Definition, Tree
from reconciler.plan.diff import Plan, Stored, plan_for

NOW_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z"""


def document(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "reconciler/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"handler": {"type": "slow"}, **spec},
    }


def declared(
    name: str, *, file: str = "jobs.d/x.yaml", line: int = 1, lines: Mapping[str, int] | None = None, **spec: Any
) -> Definition:
    return Definition(job_from(document(name, **spec)), Place(file, line), lines or {})


def stored(name: str, *, generation: int = 1, file: str = "jobs.d/x.yaml", line: int = 1, **spec: Any) -> Stored:
    written = document(name, **spec)
    return Stored(f"uid-{name}", "Job", name, generation, job_from(written).digest, written, file, line)


def tree(*definitions: Definition, broken: Sequence[str] = (), complete: bool = True) -> Tree:
    places = {("Job", name): Place(f"jobs.d/{name}.yaml", 3, 2) for name in broken}
    problems = [Problem("schema.type", place, "", f"{key[1]} is broken", "Mend it") for key, place in places.items()]
    if not complete:
        problems.append(Problem("yaml.syntax", Place("jobs.d/unreadable.yaml"), "", "cannot be read", "Mend it"))
    return Tree(
        "jobs.d",
        list(definitions),
        problems,
        complete=complete,
        broken_names=places,
    )


def planned(desired: Tree, actual: Sequence[Stored], *, recent: int = 0, approved: Sequence[str] = ()) -> Plan:
    return plan_for(desired, actual, recent_deletions=recent, approved=approved)
