"""Whatever stands in a file, reading it gives definitions that work or problems with places; never an exception."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.clock import SECOND_US
from reconciler.model.definition import Job, Json
from reconciler.model.tree import Tree
from reconciler.schedule.occurrences import compile_timing
from reconciler.spec.files import Content, Scan
from reconciler.spec.load import tree_of
from reconciler.spec.report import as_json, as_text
from tests.spec.test_schemas import FULL_JOB

NEAR_MISSES: list[Json] = [
    *(
        "",
        "yes",
        "5",
        "5m",
        "0s",
        "* * * * *",
        "0 0 30 2 *",
        "{{ slot }}",
        "{{",
        "{{ parameters.region }}",
        "Job",
        "x" * 300,
    ),
    *("Europe/Berlin", "PST", "2026-03-29T02:30:00", "2026-01-01T00:00:00Z", "command", "../x", "name", "\u202e", "\0"),
    *(
        None,
        True,
        0,
        -1,
        5.0,
        10**18,
        [],
        {},
        [[]],
        [{}],
        {"name": "x"},
        [{"name": "x"}],
        {"type": "slow", "with": None},
    ),
]
NAMES = ["name", "cron", "every", "at", "on", "with", "default", "schema", "pattern", "status", "<<", "spec", "é"]
anything: st.SearchStrategy[Json] = st.one_of(
    st.sampled_from(NEAR_MISSES).map(copy.deepcopy),  # it will be damaged further
    st.recursive(
        st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        max_leaves=4,
    ),
)


def _places(node: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    pairs: list[tuple[str | int, Json]] = []
    if isinstance(node, dict):
        pairs = list(node.items())
    elif isinstance(node, list):
        pairs = list(enumerate(node))
    return [*([path] if path else []), *(place for key, item in pairs for place in _places(item, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A valid job of one handler or another, with up to three changes anywhere."""
    job: dict[str, Any] = copy.deepcopy(FULL_JOB)
    job["spec"]["handler"] = draw(
        st.sampled_from(
            [
                {"type": "command", "with": {"argv": ["echo", "{{ slot }}"], "env": [{"name": "A", "value": "b"}]}},
                {"type": "report-generator", "with": {"rows": 5, "output": "{{ parameters.region }}.csv"}},
                {"type": "slow", "with": {"duration": "5s"}},
            ]
        )
    )
    for _ in range(draw(st.integers(0, 3))):
        *parents, last = draw(st.sampled_from(_places(job) or [("kind",)]))
        holder: Any = job
        for step in parents:
            holder = holder[step]
        match draw(st.sampled_from(["replace", "delete", "add"])):
            case "replace":
                holder[last] = draw(anything)
            case "delete":
                del holder[last]
            case _ if isinstance(holder, dict):
                holder[draw(st.sampled_from(NAMES))] = draw(anything)
            case _:
                holder.append(draw(anything))
    return job


def read(*documents: Json) -> Tree:
    texts = [json.dumps(document, ensure_ascii=False).replace("\x7f", "") for document in documents]
    return tree_of(Scan("jobs.d", [Content("x.yaml", "\n---\n".join(texts).encode())]))


@given(st.lists(damaged(), min_size=1, max_size=3))
@settings(max_examples=500, deadline=None)
def test_damaged_definitions_are_refused_with_places_or_work(documents: list[dict[str, Any]]) -> None:
    tree = read(*documents)

    assert as_text(tree)
    assert json.loads(as_json(tree))["valid"] is (not tree.problems)
    assert all(problem.what and problem.mend and problem.place.line >= 1 for problem in tree.problems)
    assert len(tree.definitions) == len(documents) or tree.problems
    for definition in tree.definitions:
        assert isinstance(definition.declared, Job)
        for trigger in definition.declared.triggers:
            compile_timing(trigger.timing, activated_us=0).next_after(1_767_225_600 * SECOND_US)


@given(anything)
@settings(max_examples=200, deadline=None)
def test_anything_at_all_is_refused_in_words(document: Json) -> None:
    tree = read(document)

    assert tree.definitions == []
    assert tree.problems or document in (None, "")
