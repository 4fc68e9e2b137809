"""A run that is cancelled while a node holds it never starts again (R9), on both databases."""

from collections.abc import Callable

import pytest

from reconciler.model.lease import Session
from reconciler.model.run import CANCEL_WANTED, AttemptOutcome, Claim, RunState
from reconciler.store import claims, queries, runs
from tests.store.cast import Store, job

RETRIED = {"maxAttempts": 3, "backoff": "Fixed", "initial": "10s"}
Way = Callable[[Store, Session, Claim], object]


def lose_lease(store: Store, _node: Session, _claim: Claim) -> None:
    store.clock.turn(31)
    store.lead("leader-b")
    assert list(store.reap().cancelled) == [_claim.run_id]


def drain(store: Store, node: Session, claim: Claim) -> None:
    store.database.tx(lambda tx: claims.hand_back(tx, node, [claim]))


def fail(store: Store, node: Session, claim: Claim) -> None:
    assert store.finish(node, claim, AttemptOutcome.FAILED)


def time_out(store: Store, node: Session, claim: Claim) -> None:
    assert store.finish(node, claim, AttemptOutcome.TIMED_OUT)


def cancel(store: Store, node: Session, claim: Claim) -> None:
    assert store.finish(node, claim, AttemptOutcome.CANCELLED)


WAYS = [
    (lose_lease, AttemptOutcome.LOST_LEASE),
    (drain, AttemptOutcome.HANDED_BACK),
    (fail, AttemptOutcome.FAILED),
    (time_out, AttemptOutcome.TIMED_OUT),
    (cancel, AttemptOutcome.CANCELLED),
]
"""How a node may lose hold of a run that it was asked to cancel, and what its attempt then says."""


def assert_over(store: Store, run_id: int, outcome: AttemptOutcome) -> None:
    run = store.run(run_id)
    attempts = store.database.read(lambda tx: queries.attempts_of(tx, run_id))
    assert (run.state, run.reason) == (RunState.CANCELLED, None)
    assert [each.outcome for each in attempts] == [outcome]
    store.clock.turn(60)
    store.lead("leader-c")
    assert store.promote() == 0
    assert store.claim(store.node("b"), 9) == []
    assert store.database.read(lambda tx: queries.dead_letters(tx, limit=10)) == []


@pytest.mark.parametrize("retry", [RETRIED, {"maxAttempts": 1}])
@pytest.mark.parametrize(("leave", "outcome"), WAYS)
def test_a_run_cancelled_while_held_is_cancelled_however_its_node_lets_go_of_it(
    store: Store, leave: Way, outcome: AttemptOutcome, retry: dict[str, object]
) -> None:
    """R9."""
    store.apply(job("report", retry=retry, poison={"maxLostLeases": 1 if retry is not RETRIED else 3}))
    run_id = store.trigger("report")
    node = store.node("a")
    (claim,) = store.claim(node)

    assert store.database.tx(lambda tx: runs.cancel(tx, run_id, actor="ops")) is RunState.RUNNING
    leave(store, node, claim)

    assert_over(store, run_id, outcome)
    assert store.run(run_id).error == (None if outcome is AttemptOutcome.CANCELLED else CANCEL_WANTED)


@pytest.mark.parametrize(("leave", "outcome"), WAYS)
def test_the_run_of_a_deleted_job_is_not_started_again_when_all_were_to_be_cancelled(
    store: Store, leave: Way, outcome: AttemptOutcome
) -> None:
    """R9: `onDelete: Cancel`."""
    store.apply(job("report", onDelete="Cancel", retry=RETRIED))
    run_id = store.trigger("report")
    node = store.node("a")
    (claim,) = store.claim(node)

    store.apply(remove=["report"])
    leave(store, node, claim)

    assert_over(store, run_id, outcome)


def test_a_run_that_succeeded_before_its_node_heard_of_the_cancel_has_succeeded(store: Store) -> None:
    """R9: exactly one of Cancelled and finished wins."""
    store.apply(job("report"))
    run_id = store.trigger("report")
    node = store.node("a")
    (claim,) = store.claim(node)

    store.database.tx(lambda tx: runs.cancel(tx, run_id, actor="ops"))

    assert store.finish(node, claim)
    assert store.run(run_id).state is RunState.SUCCEEDED
