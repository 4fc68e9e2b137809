"""The reconcile loop (invariants G2, G8): settled snapshots only, hints and rescans, git in the middle of something."""

import os

import pytest

from reconciler.reconcile.loop import Reconciler
from reconciler.reconcile.settle import PAUSE_SECONDS, GitLockIgnored, Settling
from reconciler.store import passes
from reconciler.store.passes import PassState
from reconciler.telemetry import Event
from tests.reconcile.cast import Committer, document, passes_made, turn


def test_a_file_is_applied_when_two_looks_agree(committer: Committer, loop: Reconciler) -> None:
    committer.write("report")

    loop.step()
    after_one_look = committer.live()
    turn(committer, loop, 1)

    assert after_one_look == {}
    assert set(committer.live()) == {"report"}


def test_a_file_that_keeps_growing_is_not_applied_before_it_rests(committer: Committer, loop: Reconciler) -> None:
    whole = document("report", description="x" * 200)
    for end in range(40, len(whole), 40):
        committer.put("report.yaml", whole[:end])
        loop.step()
        committer.store.clock.turn(PAUSE_SECONDS)
    assert passes_made(committer) == []

    committer.put("report.yaml", whole)
    turn(committer, loop, 1)

    assert passes_made(committer) == [PassState.APPLIED]


def test_an_unchanged_folder_is_left_alone(committer: Committer, loop: Reconciler) -> None:
    """G1: a rescan of the same content makes no pass."""
    committer.write("report")
    turn(committer, loop, 200)

    assert passes_made(committer) == [PassState.APPLIED]


def test_a_change_is_found_by_the_rescan_when_no_event_comes(committer: Committer, loop: Reconciler) -> None:
    """G2: events only make it quicker."""
    committer.write("report")
    turn(committer, loop, 1)
    committer.write("report", priority=9)
    turn(committer, loop, 28)
    early = committer.live()["report"].generation
    turn(committer, loop, 4)

    assert (early, committer.live()["report"].generation) == (1, 2)


def test_a_hint_brings_the_rescan_forward(committer: Committer, loop: Reconciler) -> None:
    committer.write("report")
    turn(committer, loop, 1)
    committer.write("report", priority=9)
    loop.hint()
    turn(committer, loop, 1)

    assert committer.live()["report"].generation == 2


def test_a_new_term_reads_the_files_again(committer: Committer, loop: Reconciler) -> None:
    committer.write("report")
    turn(committer, loop, 1)
    committer.store.clock.turn(15)
    committer.store.lead("leader-b")
    turn(committer, loop, 1)

    assert passes_made(committer) == [PassState.APPLIED, PassState.UNCHANGED]


def test_a_requested_pass_is_made_at_once_and_says_what_it_found(committer: Committer, loop: Reconciler) -> None:
    turn(committer, loop, 1)
    committer.write("report")
    asked = committer.store.database.tx(lambda tx: passes.request(tx, "default", requested_by="os:operator"))
    turn(committer, loop, 1)

    found = committer.store.database.read(lambda tx: passes.show(tx, asked))
    assert found is not None
    assert (found.state, found.report["created"]) == (PassState.APPLIED, ["report"])


def test_a_held_deletion_goes_on_after_its_approval(committer: Committer, loop: Reconciler) -> None:
    committer.write("report")
    turn(committer, loop, 1)
    committer.remove("report")
    loop.hint()
    turn(committer, loop, 1)
    held = committer.store.database.read(lambda tx: passes.listed(tx, limit=1))[0]
    committer.approve(held.deletion_digest or "")
    committer.store.database.tx(lambda tx: passes.request(tx, "default", requested_by="os:operator"))
    turn(committer, loop, 2)

    assert passes_made(committer) == [PassState.APPLIED, PassState.REFUSED, PassState.APPLIED]
    assert committer.live() == {}


def test_a_lock_of_git_postpones(committer: Committer, loop: Reconciler) -> None:
    git = committer.folder.parent / ".git"
    git.mkdir()
    (git / "index.lock").touch()
    os.utime(git / "index.lock", times=(committer.store.clock.now_us() / 1e6,) * 2)
    committer.write("report")

    turn(committer, loop, 30)
    while_locked = committer.live()
    (git / "index.lock").unlink()
    turn(committer, loop, 1)

    assert while_locked == {}
    assert set(committer.live()) == {"report"}


def test_a_lock_that_was_left_behind_only_warns(committer: Committer, loop: Reconciler, events: list[Event]) -> None:
    git = committer.folder.parent / ".git"
    git.mkdir()
    (git / "index.lock").touch()
    os.utime(git / "index.lock", times=(committer.store.clock.now_us() / 1e6 - 61,) * 2)
    committer.write("report")

    turn(committer, loop, 1)

    assert set(committer.live()) == {"report"}
    assert len([event for event in events if isinstance(event, GitLockIgnored)]) == 1


def test_the_lock_of_a_linked_work_tree_is_found(committer: Committer) -> None:
    real = committer.folder.parent / "main.git" / "worktrees" / "jobs"
    real.mkdir(parents=True)
    (committer.folder / ".git").write_text(f"gitdir: {real}\n")
    (real / "index.lock").touch()
    os.utime(real / "index.lock", times=(committer.store.clock.now_us() / 1e6,) * 2)
    settling = Settling(committer.folder, clock=committer.store.clock)

    for _ in range(5):
        assert settling.look() is None
        committer.store.clock.turn(PAUSE_SECONDS)


def test_files_that_change_between_the_look_and_the_read_are_not_applied(
    committer: Committer, loop: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer.write("report")
    loop.step()
    committer.store.clock.turn(PAUSE_SECONDS)
    look = Settling.look

    def look_then_write(settling: Settling) -> object:
        found = look(settling)
        committer.write("late")
        return found

    monkeypatch.setattr(Settling, "look", look_then_write)
    loop.step()

    assert passes_made(committer) == []
