"""Deletions through a whole apply: what the guard holds, releases, and never prunes (G5)."""

import shutil

import pytest

from reconciler.store.passes import PassState
from tests.reconcile.cast import Committer


def digest_in(reason: str) -> str:
    """The digest that a refusal tells the operator to approve."""
    return reason.rsplit("approve ", 1)[1].rstrip("`")


def twenty(committer: Committer) -> None:
    for number in range(20):
        committer.write(f"job-{number:02}")
    assert committer.apply().state is PassState.APPLIED


@pytest.mark.case("GIT-01")
def test_all_files_gone_at_once_deletes_nothing_until_approved(committer: Committer) -> None:
    twenty(committer)
    for file in committer.folder.iterdir():
        file.unlink()

    ended = committer.apply()

    assert ended.state is PassState.REFUSED
    assert "20 definitions would be deleted, all it declared" in ended.reason
    assert len(committer.live()) == 20
    committer.approve(digest_in(ended.reason))
    assert committer.apply().state is PassState.APPLIED
    assert committer.live() == {}


@pytest.mark.case("GIT-01")
def test_a_missing_folder_deletes_nothing_whatever_is_approved(committer: Committer) -> None:
    twenty(committer)
    shutil.rmtree(committer.folder)

    ended = committer.apply()

    assert (ended.state, len(committer.live())) == (PassState.REFUSED, 20)
    assert "nothing is applied and nothing pruned" in ended.reason


@pytest.mark.case("GIT-01")
def test_removing_nineteen_of_twenty_is_held_until_approved(committer: Committer) -> None:
    twenty(committer)
    committer.remove(*(f"job-{number:02}" for number in range(19)))
    committer.write("new")

    ended = committer.apply()

    assert ended.state is PassState.REFUSED
    assert "new" not in committer.live(), "nothing of a held revision applies"
    assert len(committer.live()) == 20


@pytest.mark.case("GIT-01")
def test_the_last_job_of_a_one_job_folder_can_be_removed_on_purpose(committer: Committer) -> None:
    committer.write("only")
    committer.apply()
    committer.remove("only")

    held = committer.apply()
    committer.approve(digest_in(held.reason))
    ended = committer.apply()

    assert (held.state, ended.state) == (PassState.REFUSED, PassState.APPLIED)
    assert committer.live() == {}


def test_an_approval_covers_only_the_set_it_names(committer: Committer) -> None:
    twenty(committer)
    committer.remove(*(f"job-{number:02}" for number in range(10)))
    held = committer.apply()
    committer.approve(digest_in(held.reason))
    committer.remove("job-10")

    ended = committer.apply()

    assert ended.state is PassState.REFUSED
    assert len(committer.live()) == 20


def test_small_deletions_add_up_over_ten_minutes(committer: Committer) -> None:
    """G5: 20 % of 20 in the window, however many commits it takes."""
    twenty(committer)
    for number in range(4):
        committer.remove(f"job-{number:02}")
        assert committer.apply().state is PassState.APPLIED
    committer.remove("job-04")

    held = committer.apply()
    committer.store.clock.turn(601)
    committer.store.lead("leader-b")
    later = committer.apply()

    assert held.state is PassState.REFUSED
    assert later.state is PassState.APPLIED
    assert len(committer.live()) == 15
