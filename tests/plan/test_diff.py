import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.tree import Definition, Tree
from reconciler.plan.diff import Broken, Create, Delete, FieldChange, Plan, Stored, Unchanged, Update, diff
from tests.plan.cast import declared, planned, stored, tree


def test_what_is_declared_and_not_stored_is_created() -> None:
    want = declared("a")

    assert diff(tree(want), []) == [Create(want)]


def test_what_is_stored_and_not_declared_is_deleted() -> None:
    have = stored("a")

    assert diff(tree(), [have]) == [Delete(have)]


def test_changes_come_sorted_by_name() -> None:
    desired = tree(declared("d"), declared("b", priority=9), declared("a"), broken=["e"])

    changes = diff(desired, [stored("c"), stored("b"), stored("a")])

    assert [type(change) for change in changes] == [Unchanged, Update, Delete, Create, Broken]


def test_an_update_names_each_field_with_before_after_and_line() -> None:
    lines = {"spec.priority": 7, "spec.triggers[b].cron": 12, "spec.handler.with.steps": 5}
    want = declared(
        "a",
        lines=lines,
        priority=9,
        handler={"type": "slow", "with": {"steps": 2}},
        triggers=[{"name": "b", "cron": "0 0 * * *"}, {"name": "a", "every": "5m"}],
    )
    have = stored(
        "a",
        queue="reports",
        priority=5,
        triggers=[{"name": "a", "every": "5m"}, {"name": "b", "cron": "1 0 * * *"}],
    )

    (change,) = diff(tree(want), [have])

    assert isinstance(change, Update)
    assert change.fields == [
        FieldChange("spec.handler.with.steps", None, 2, 5),
        FieldChange("spec.priority", 5, 9, 7),
        FieldChange("spec.queue", "reports", None, None),
        FieldChange("spec.triggers[b].cron", "1 0 * * *", "0 0 * * *", 12),
    ]


def test_true_is_not_one() -> None:
    want, have = (
        declared("a", parameters=[{"name": "p", "default": True}]),
        stored("a", parameters=[{"name": "p", "default": 1}]),
    )

    (change,) = diff(tree(want), [have])

    assert isinstance(change, Update)
    assert [field.path for field in change.fields] == ["spec.parameters[p].default"]


def test_a_move_is_no_change_of_the_definition() -> None:
    """G9."""
    (change,) = diff(tree(declared("a", file="jobs.d/new.yaml", line=9)), [stored("a")])

    assert isinstance(change, Unchanged)
    assert change.has_moved
    assert not planned(tree(declared("a", file="jobs.d/new.yaml", line=9)), [stored("a")]).has_changes


@pytest.mark.case("GIT-03")
def test_a_broken_definition_keeps_its_last_good_version_or_stays_absent() -> None:
    """G4: seven good ones of which two are changed and one is new; three broken, one of them new."""
    good = [declared(f"good-{number}") for number in range(4)] + [declared("new")]
    changed = [declared("changed-1", priority=1), declared("changed-2", priority=2)]
    kept = [
        stored(name) for name in ("good-0", "good-1", "good-2", "good-3", "changed-1", "changed-2", "bad-1", "bad-2")
    ]

    plan = planned(tree(*good, *changed, broken=["bad-1", "bad-2", "bad-3"]), kept)

    assert [change.definition.declared.name for change in plan.creates] == ["new"]
    assert [change.stored.name for change in plan.updates] == ["changed-1", "changed-2"]
    assert plan.deletes == []
    broken = [change for change in plan.changes if isinstance(change, Broken)]
    assert [(change.key[1], change.stored is not None) for change in broken] == [
        ("bad-1", True),
        ("bad-2", True),
        ("bad-3", False),
    ]


def test_a_plan_against_the_applied_commit_has_the_digest_of_the_plan_against_the_store() -> None:
    """What was looked at in CI, without a store, can be applied with --expect-digest."""
    change = tree(declared("a", priority=1), declared("c"))

    against_commit = planned(change, [stored("a"), stored("b")]).digest
    against_store = planned(change, [stored("a", generation=7), stored("b", generation=3)]).digest

    assert against_commit == against_store


def test_the_digest_names_exactly_these_changes() -> None:
    base = planned(tree(declared("a", priority=1), declared("b")), [stored("a"), stored("b")]).digest

    assert planned(tree(declared("b", line=7), declared("a", priority=1)), [stored("b"), stored("a")]).digest == base
    assert planned(tree(declared("a", priority=2), declared("b")), [stored("a"), stored("b")]).digest != base
    assert (
        planned(tree(declared("a", priority=1), declared("b")), [stored("a", priority=9), stored("b")]).digest != base
    )
    assert planned(tree(declared("a", priority=1)), [stored("a"), stored("b")]).digest != base
    assert (
        planned(tree(declared("a", priority=1), declared("b"), declared("c")), [stored("a"), stored("b")]).digest
        != base
    )


names = st.sampled_from("abcdefgh")
priorities = st.integers(0, 3)
states = st.dictionaries(names, priorities, max_size=8)


def _tree(state: dict[str, int], broken: frozenset[str] = frozenset()) -> Tree:
    return tree(
        *(declared(name, priority=at) for name, at in state.items() if name not in broken), broken=sorted(broken)
    )


def applied(plan: Plan, actual: list[Stored]) -> list[Stored]:
    """What an apply leaves in the store, written down independently."""
    by_name = {each.name: each for each in actual}
    if plan.is_held:
        return actual
    for create in plan.creates:
        by_name[create.definition.declared.name] = _kept(create.definition, 1)
    for update in plan.updates:
        by_name[update.stored.name] = _kept(update.definition, update.stored.generation + 1)
    for prune in plan.prunes:
        del by_name[prune.stored.name]
    return list(by_name.values())


def _kept(definition: Definition, generation: int) -> Stored:
    job, place = definition.declared, definition.place
    return Stored(f"uid-{job.name}", job.kind, job.name, generation, job.digest, job.document, place.file, place.line)


@given(states, states)
@settings(max_examples=300, deadline=None)
def test_applied_twice_the_second_plan_is_empty(desired: dict[str, int], actual: dict[str, int]) -> None:
    """G1, with everything the guard may hold approved."""
    before = [stored(name, priority=at) for name, at in actual.items()]
    plan = planned(_tree(desired), before)
    approved = [plan.ruling.digest] if plan.is_held else []  # type: ignore[union-attr]

    after = applied(planned(_tree(desired), before, approved=approved), before)
    again = planned(_tree(desired), after)

    assert not again.has_changes
    assert {each.name: each.document["spec"]["priority"] for each in after} == desired


@given(states, states, st.permutations(list("abcdefgh")))
@settings(max_examples=200, deadline=None)
def test_the_plan_depends_on_the_two_states_and_not_on_their_order(
    desired: dict[str, int], actual: dict[str, int], order: list[str]
) -> None:
    """G2."""
    turned_desired = {name: desired[name] for name in order if name in desired}
    turned_actual = {name: actual[name] for name in order if name in actual}

    one = planned(_tree(desired), [stored(name, priority=at) for name, at in actual.items()])
    other = planned(_tree(turned_desired), [stored(name, priority=at) for name, at in turned_actual.items()])

    assert one == other


@given(states, states, st.frozensets(names))
@settings(max_examples=300, deadline=None)
def test_a_broken_definition_is_never_touched_and_nothing_is_pruned_beside_it(
    desired: dict[str, int], actual: dict[str, int], broken: frozenset[str]
) -> None:
    """G4."""
    before = [stored(name, priority=at) for name, at in actual.items()]
    plan = planned(_tree(desired, broken), before)

    touched = {change.definition.declared.name for change in plan.creates}
    touched |= {change.stored.name for change in plan.updates}
    touched |= {change.stored.name for change in plan.deletes}

    assert not touched & broken
    assert not (broken and plan.prunes)
