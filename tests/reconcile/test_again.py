"""What the loop tries again: passes that left something open, and passes that a fault of the store cut short (G2)."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import StoreUnavailableError
from reconciler.model.tree import Tree
from reconciler.reconcile import apply
from reconciler.reconcile.apply import PassRefused, Source
from reconciler.reconcile.loop import PassMade, Reconciler
from reconciler.store import passes, revisions
from reconciler.store.passes import PassState
from reconciler.telemetry import Event
from tests.reconcile.cast import Committer, document, loop_over, passes_made, turn


def failing_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Raise a passing fault of the store at the first call."""
    called: list[bool] = []

    def called_again(*positional: Any, **named: Any) -> Any:
        if not called:
            called.append(True)
            raise StoreUnavailableError("the store does not answer")
        return function(*positional, **named)

    return called_again


def asked_for(committer: Committer, **how: Any) -> int:
    return committer.store.database.tx(lambda tx: passes.request(tx, "default", requested_by="os:operator", **how))


def state_of(committer: Committer, pass_id: int) -> PassState:
    found = committer.store.database.read(lambda tx: passes.show(tx, pass_id))
    assert found is not None
    return found.state


def test_a_definition_that_moves_to_a_source_that_is_read_first_is_taken_over(
    committer: Committer, tmp_path: Path
) -> None:
    """G2: what is live depends on the final folders only, not on which of two sources is read first."""
    first, second = tmp_path / "first.d", committer.folder
    first.mkdir()
    (first / "other.yaml").write_text(document("other"))
    for name in ("report", "rest", "more"):
        committer.write(name)
    loops = [loop_over(committer, Source("first", first)), loop_over(committer, Source("second", second))]
    for _ in range(2):
        for each in loops:
            turn(committer, each, 1)
    shutil.move(second / "report.yaml", first / "report.yaml")
    for _ in range(2):
        for each in loops:
            turn(committer, each, 31)

    assert {each.name: each.source for each in committer.live().values()} == {
        "other": "first",
        "report": "first",
        "rest": "second",
        "more": "second",
    }


def test_a_held_deletion_is_looked_at_again_when_its_window_has_passed(committer: Committer, loop: Reconciler) -> None:
    for number in range(5):
        committer.write(f"job-{number}")
    turn(committer, loop, 1)
    committer.remove("job-0")
    loop.hint()
    turn(committer, loop, 1)
    committer.remove("job-1")
    loop.hint()
    turn(committer, loop, 1)
    while_held = set(committer.live())
    turn(committer, loop, 640)

    assert while_held == {"job-1", "job-2", "job-3", "job-4"}
    assert set(committer.live()) == {"job-2", "job-3", "job-4"}
    assert passes_made(committer)[2:] == [PassState.REFUSED, PassState.APPLIED]


@pytest.mark.parametrize("how", ["invalid", "held", "missing"])
def test_a_pass_that_ends_like_the_last_one_is_not_recorded_again(
    how: str,
    committer: Committer,
    loop: Reconciler,
    events: list[Event],
) -> None:
    for name in ("report", "rest", "more"):
        committer.write(name)
    turn(committer, loop, 1)
    if how == "invalid":
        committer.write("report", priority="high")
        committer.remove("more")
        committer.write("new")
    elif how == "held":
        committer.remove("report", "rest", "more")
    else:
        committer.folder.rename(committer.folder.with_name("away"))
    turn(committer, loop, 700)

    assert passes_made(committer) == [PassState.APPLIED, PassState.INVALID if how == "invalid" else PassState.REFUSED]
    assert len([event for event in events if isinstance(event, PassMade)]) == 2
    assert len([event for event in events if isinstance(event, PassRefused)]) == 1


def test_files_that_stay_refused_are_not_parsed_at_every_rescan(
    committer: Committer,
    loop: Reconciler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    committer.write("report", priority="high")
    turn(committer, loop, 1)
    parsed: list[Path] = []
    load = Source.load

    def load_and_count(source: Source) -> Tree:
        parsed.append(source.path)
        return load(source)

    monkeypatch.setattr(Source, "load", load_and_count)
    turn(committer, loop, 700)

    assert 1 <= len(parsed) <= 2


def test_a_folder_that_is_away_only_while_it_is_read_is_applied_when_it_is_back(
    committer: Committer,
    loop: Reconciler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two looks agreed on the files before the read, and do so again after it."""
    committer.write("report")
    away, load = committer.folder.with_name("away"), Source.load

    def load_while_away(source: Source) -> Tree:
        monkeypatch.setattr(Source, "load", load)
        committer.folder.rename(away)
        try:
            return load(source)
        finally:
            away.rename(committer.folder)

    monkeypatch.setattr(Source, "load", load_while_away)
    turn(committer, loop, 35)

    assert set(committer.live()) == {"report"}


def test_a_plan_that_is_not_the_expected_one_is_applied_by_the_next_rescan(
    committer: Committer,
    loop: Reconciler,
) -> None:
    turn(committer, loop, 1)
    committer.write("report")
    refused = asked_for(committer, expect_digest="another")
    turn(committer, loop, 2)
    turn(committer, loop, 31)

    assert state_of(committer, refused) is PassState.REFUSED
    assert set(committer.live()) == {"report"}


@pytest.mark.parametrize("at", ["plan_against", "flip", "conclude"])
def test_an_asked_for_pass_is_made_after_a_passing_fault_of_the_store(
    at: str,
    committer: Committer,
    loop: Reconciler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn(committer, loop, 1)
    committer.write("report")
    asked = asked_for(committer)
    holder = {"plan_against": apply, "flip": revisions, "conclude": passes}[at]
    monkeypatch.setattr(holder, at, failing_once(getattr(holder, at)))
    with pytest.raises(StoreUnavailableError):
        turn(committer, loop, 2)
    turn(committer, loop, 2)

    assert state_of(committer, asked) is PassState.APPLIED
    assert set(committer.live()) == {"report"}
    assert PassState.RUNNING not in passes_made(committer)


def test_a_pass_that_a_lost_leader_began_is_made_by_the_next_one(committer: Committer, loop: Reconciler) -> None:
    turn(committer, loop, 1)
    store = committer.store
    asked = asked_for(committer)
    store.database.tx(lambda tx: passes.start(tx, store.term, "default", pass_id=asked))
    store.clock.turn(15)
    store.lead("leader-b")
    turn(committer, loop_over(committer, Source("default", committer.folder)), 2)

    assert state_of(committer, asked) is PassState.UNCHANGED
