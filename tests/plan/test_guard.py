import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.plan.guard import Allowed, Held, Ruling, Withheld, deletion_digest, judge
from tests.plan.cast import declared, planned, stored, tree


def ruled(deleted: int, managed: int, **facts: int | bool | list[str]) -> Ruling:
    given: dict[str, object] = {
        "recent": 0,
        "is_empty": False,
        "errors": 0,
        "is_complete": True,
        "approved": [],
        **facts,
    }
    return judge([f"uid-{number}" for number in range(deleted)], managed=managed, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("deleted", "managed", "recent", "passes"),
    [
        (0, 0, 0, True),
        (1, 2, 0, True),
        (1, 5, 0, True),
        (2, 5, 0, False),
        (2, 10, 0, True),
        (3, 14, 0, False),
        (3, 15, 0, True),
        (4, 20, 0, True),
        (5, 20, 0, False),
        (1, 19, 3, True),
        (2, 17, 3, False),
        (1, 1, 1, False),
    ],
)
def test_one_in_five_passes_within_ten_minutes_and_always_one(
    deleted: int, managed: int, recent: int, passes: bool
) -> None:
    """G5: more than max(1, 20 %) of the managed set over the window is held; the set counts what went already."""
    assert isinstance(ruled(deleted, managed, recent=recent), Allowed) is passes


@pytest.mark.case("GIT-01")
def test_an_emptied_directory_is_held_until_this_very_set_is_approved() -> None:
    """(a): all files gone at once."""
    actual = [stored(f"job-{number}") for number in range(20)]

    plan = planned(tree(), actual)

    assert isinstance(plan.ruling, Held)
    assert plan.prunes == []
    assert "declares nothing any more: 20 definitions would be deleted, all it declared" in plan.ruling.reason
    assert len(planned(tree(), actual, approved=[plan.ruling.digest]).prunes) == 20


@pytest.mark.case("GIT-01")
def test_nineteen_of_twenty_are_held_with_everything_else() -> None:
    """(c): over the threshold, so nothing of the revision applies."""
    plan = planned(
        tree(declared("job-0", priority=9), declared("new")), [stored(f"job-{number}") for number in range(20)]
    )

    assert isinstance(plan.ruling, Held)
    assert "19 definitions would be deleted; without an approval at most 4 of 20 may be" in plan.ruling.reason
    assert plan.is_held


@pytest.mark.case("GIT-01")
def test_the_last_job_goes_when_its_deletion_is_approved() -> None:
    """(d): one job left, removed on purpose; one deletion alone would pass, an empty directory never does."""
    plan = planned(tree(), [stored("last")])
    assert isinstance(plan.ruling, Held)

    assert [prune.stored.name for prune in planned(tree(), [stored("last")], approved=[plan.ruling.digest]).prunes] == [
        "last"
    ]


def test_an_empty_directory_over_an_empty_store_is_nothing_to_hold() -> None:
    assert planned(tree(), []).ruling == Allowed()


def test_an_approval_is_bound_to_its_set() -> None:
    actual = [stored(name) for name in ("a", "b", "c", "d")]
    approved = deletion_digest(["uid-a", "uid-b"])

    assert isinstance(planned(tree(declared("c"), declared("d")), actual, approved=[approved]).ruling, Allowed)
    assert isinstance(planned(tree(declared("d")), actual, approved=[approved]).ruling, Held)
    assert deletion_digest(["uid-b", "uid-a"]) == approved
    assert deletion_digest(["uid-a"]) != approved


def test_a_rename_beside_a_file_that_cannot_be_read_deletes_nothing() -> None:
    plan = planned(tree(declared("new-name"), declared("kept"), complete=False), [stored("old-name"), stored("kept")])

    assert isinstance(plan.ruling, Withheld)
    assert [create.definition.declared.name for create in plan.creates] == ["new-name"]
    assert plan.prunes == []
    assert not plan.is_held


def test_a_rename_to_a_broken_definition_deletes_nothing() -> None:
    plan = planned(tree(declared("kept"), broken=["new-name"]), [stored("old-name"), stored("kept")])

    assert isinstance(plan.ruling, Withheld)
    assert plan.prunes == []


def test_errors_are_stronger_than_an_approval() -> None:
    actual = [stored("a"), stored("b")]
    approved = deletion_digest(["uid-a", "uid-b"])

    assert isinstance(planned(tree(complete=False), actual, approved=[approved]).ruling, Withheld)


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_without_an_approval_a_prune_is_small_and_its_tree_whole(data: st.DataObject) -> None:
    """G5."""
    deleted, kept, recent = (data.draw(st.integers(0, most)) for most in (40, 40, 20))
    is_empty, is_complete, errors = data.draw(st.booleans()), data.draw(st.booleans()), data.draw(st.integers(0, 2))

    ruling = ruled(deleted, deleted + kept, recent=recent, is_empty=is_empty, errors=errors, is_complete=is_complete)

    if deleted and isinstance(ruling, Allowed):
        assert is_complete
        assert not errors
        assert not is_empty
        assert deleted + recent <= max(1, 0.2 * (deleted + kept + recent))
