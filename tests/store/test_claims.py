"""Claim, lease and fence (invariants I1-I4, I7, C6) on both databases."""

import dataclasses
from functools import partial

import pytest

from reconciler.clock import SECOND_US
from reconciler.errors import SessionLostError
from reconciler.model.run import AttemptOutcome, Outcome, RunState
from reconciler.store import claims, nodes, queries
from reconciler.store.history import Hold, put_back, record_holds
from tests.store.cast import LEASE_US, Store, job


def test_a_claim_raises_the_fence_and_starts_the_attempt(store: Store) -> None:
    store.apply(job("report"))
    run_id = store.trigger("report")

    (claim,) = store.claim(store.node("a"))

    assert (claim.run_id, claim.fence, claim.attempt, claim.handler) == (run_id, 1, 1, "slow")
    assert store.run(run_id).state is RunState.RUNNING
    assert store.run(run_id).node == "a"


def test_a_run_that_is_held_is_not_claimed_again(store: Store) -> None:
    store.apply(job("report"))
    store.trigger("report")
    store.claim(store.node("a"))

    assert store.claim(store.node("b")) == []


def test_a_worker_that_stalled_cannot_finish_a_run_claimed_by_another(store: Store) -> None:
    """I3, I4: the late write of an expired session changes nothing."""
    store.apply(job("report"))
    run_id = store.trigger("report")
    stalled = store.node("a")
    (stale,) = store.claim(stalled)
    store.clock.turn(31)
    store.lead("leader-b")
    store.reap()
    node = store.node("b")
    (fresh,) = store.claim(node)

    with pytest.raises(SessionLostError):
        store.finish(stalled, stale, AttemptOutcome.FAILED)
    assert store.finish(node, fresh)

    assert fresh.fence == stale.fence + 1
    assert store.run(run_id).state is RunState.SUCCEEDED


def test_an_expired_session_is_over_before_anyone_reaped_it(store: Store) -> None:
    """I4: expired is final, by the store's clock."""
    store.apply(job("report"))
    store.trigger("report")
    node = store.node("a")
    (claim,) = store.claim(node)
    store.clock.turn(30)

    with pytest.raises(SessionLostError):
        store.finish(node, claim)
    assert store.database.tx(lambda tx: nodes.renew(tx, node, lease_us=LEASE_US)) is None


def test_a_renewed_lease_keeps_the_run(store: Store) -> None:
    store.apply(job("report"))
    run_id = store.trigger("report")
    node = store.node("a")
    (claim,) = store.claim(node)

    for _ in range(5):
        store.clock.turn(20)
        assert store.database.tx(lambda tx: nodes.renew(tx, node, lease_us=LEASE_US))
        store.lead("leader-a")
        store.reap()

    assert store.finish(node, claim)
    assert store.run(run_id).attempt == 1


def test_a_write_with_an_older_fence_changes_nothing(store: Store) -> None:
    """I3: the same session claimed the run again; its first report comes late."""
    store.apply(job("report"))
    run_id = store.trigger("report")
    node = store.node("a")
    (first,) = store.claim(node)
    store.database.tx(lambda tx: claims.hand_back(tx, node, [first]))
    (second,) = store.claim(node)

    assert not store.finish(node, first)
    assert store.run(run_id).state is RunState.RUNNING
    assert store.finish(node, second)


def test_another_session_cannot_finish_a_run_even_with_the_right_fence(store: Store) -> None:
    """I7."""
    store.apply(job("report"))
    store.trigger("report")
    (claim,) = store.claim(store.node("a"))
    thief = store.node("b")

    assert not store.finish(thief, claim)


def test_a_session_with_a_wrong_secret_is_nobody(store: Store) -> None:
    """I7: knowing id and epoch is not enough."""
    store.apply(job("report"))
    store.trigger("report")
    node = store.node("a")
    forged = dataclasses.replace(node, secret="guessed")

    with pytest.raises(SessionLostError):
        store.claim(forged)
    assert "secret" not in repr(node)


def test_a_new_process_under_an_old_name_keeps_nothing_of_the_old_one_alive(store: Store) -> None:
    store.apply(job("report"))
    run_id = store.trigger("report")
    old = store.node("a")
    store.claim(old)
    store.clock.turn(20)
    store.node("a")
    store.clock.turn(11)
    store.lead("leader-a")

    reaped = store.reap()

    assert list(reaped.put_back) == [run_id]


def test_a_finished_run_keeps_its_attempt_output_and_exit_code(store: Store) -> None:
    store.apply(job("report"))
    run_id = store.trigger("report")
    node = store.node("a")
    (claim,) = store.claim(node)
    store.clock.turn(3)
    outcome = Outcome(
        run_id,
        claim.fence,
        claim.attempt,
        AttemptOutcome.FAILED,
        started_us=100,
        finished_us=2_000_100,
        exit_code=9,
        error="exit code 9",
        output="line 1\nline 2\n",
    )

    store.database.tx(lambda tx: claims.finish(tx, node, [outcome]))

    run = store.run(run_id)
    (attempt,) = store.database.read(lambda tx: queries.attempts_of(tx, run_id))
    assert (run.state, run.exit_code, run.error) == (RunState.FAILED, 9, "exit code 9")
    assert (attempt.outcome, attempt.exit_code, attempt.output) == ("Failed", 9, "line 1\nline 2\n")
    assert attempt.started_us is not None
    assert attempt.finished_us - attempt.started_us == 2_000_000, "the node's own measure, not the arrival"


def test_a_batch_is_finished_in_one_step_and_names_those_fenced_out(store: Store) -> None:
    store.apply(job("report"))
    for _ in range(3):
        store.trigger("report")
    node = store.node("a")
    held = store.claim(node, 3)
    reports = [
        Outcome(each.run_id, each.fence + (index == 1), 1, AttemptOutcome.SUCCEEDED, 0, 1)
        for index, each in enumerate(held)
    ]

    accepted = store.database.tx(lambda tx: claims.finish(tx, node, reports))

    assert accepted == dict.fromkeys((held[0].run_id, held[2].run_id), RunState.SUCCEEDED)
    assert [run.state for run in store.runs()] == [RunState.SUCCEEDED, RunState.RUNNING, RunState.SUCCEEDED]


def test_a_report_whose_answer_was_lost_is_told_as_accepted_and_written_once(store: Store) -> None:
    """R4: the worker sends it again, as it must, since it cannot know."""
    store.apply(job("report"))
    run_id = store.trigger("report")
    node = store.node("a")
    (claim,) = store.claim(node)

    assert store.finish(node, claim)
    assert store.finish(node, claim)

    assert len(store.database.read(lambda tx: queries.attempts_of(tx, run_id))) == 1
    assert len(store.runs()) == 1


def test_a_lost_lease_is_not_taken_for_a_report(store: Store) -> None:
    store.apply(job("report"))
    store.trigger("report")
    node = store.node("a")
    (claim,) = store.claim(node)
    store.database.tx(lambda tx: record_holds(tx, [Hold(claim.run_id, AttemptOutcome.LOST_LEASE)]))
    store.database.tx(lambda tx: put_back(tx, [claim.run_id], lost_lease=True))

    assert not store.finish(node, claim)


def test_a_claim_whose_answer_was_lost_is_found_and_handed_back(store: Store) -> None:
    store.apply(job("report"))
    run_id = store.trigger("report")
    node = store.node("a")
    (lost,) = store.claim(node)

    held = store.database.read(lambda tx: claims.held_by(tx, node))
    store.database.tx(partial(claims.hand_back, session=node, held=[lost]))

    assert held == [(run_id, 1)]
    assert store.database.read(lambda tx: claims.held_by(tx, node)) == []
    assert store.claim(store.node("b"))[0].fence == 2


def test_a_run_that_keeps_losing_its_lease_is_parked(store: Store) -> None:
    """R3: lost leases are not failures, and have their own budget of three."""
    store.apply(job("poison"))
    run_id = store.trigger("poison")

    for _ in range(3):
        assert store.claim(store.node("a"))
        store.clock.turn(31)
        store.lead("leader")
        store.reap()

    run = store.run(run_id)
    assert (run.state, run.reason, run.attempt, run.lost_leases) == (RunState.DEAD_LETTERED, "TooManyLostLeases", 3, 2)
    assert store.claim(store.node("b")) == []


def test_a_run_handed_back_loses_nothing_of_its_budget(store: Store) -> None:
    store.apply(job("report"))
    run_id = store.trigger("report")

    for round_ in range(1, 6):
        node = store.node("a")
        (claim,) = store.claim(node)
        assert (claim.attempt, claim.fence) == (1, round_)
        store.database.tx(partial(claims.hand_back, session=node, held=[claim]))

    assert store.run(run_id).state is RunState.PENDING
    outcomes = store.database.read(lambda tx: [each.outcome for each in queries.attempts_of(tx, run_id)])
    assert outcomes == ["HandedBack"] * 5


@pytest.mark.parametrize(
    ("ended_by", "told"),
    [
        (nodes.EndedBy.LEASE, "the node's lease ran out"),
        (nodes.EndedBy.GUARD, "its worker was gone; the guard ended the job"),
        (nodes.EndedBy.WORKER, "its worker began a new session"),
    ],
)
def test_a_lost_hold_says_who_ended_the_session(store: Store, ended_by: nodes.EndedBy, told: str) -> None:
    store.apply(job("once"))
    store.trigger("once")
    node = store.node("a")
    (held,) = store.claim(node)
    if ended_by is nodes.EndedBy.LEASE:
        store.clock.turn(LEASE_US / SECOND_US + 1)
    else:
        store.database.tx(lambda tx: nodes.end(tx, node, by=ended_by))
    store.reap()

    (attempt,) = store.database.read(lambda tx: queries.attempts_of(tx, held.run_id))
    (shown,) = store.database.read(lambda tx: nodes.listed(tx, limit=1, with_dead=True))
    assert (attempt.error, shown.ended_by) == (told, ended_by)


def test_a_draining_node_claims_nothing_more(store: Store) -> None:
    """C5."""
    store.apply(job("report"))
    store.trigger("report")
    node = store.node("a")

    store.database.tx(lambda tx: nodes.drain(tx, node))

    assert store.claim(node) == []
    assert store.database.tx(lambda tx: nodes.renew(tx, node, lease_us=LEASE_US)), "it still finishes what it holds"


def test_a_node_gets_only_the_queues_and_handlers_it_admits(store: Store) -> None:
    """C6."""
    store.apply(job("slow-one", queue="etl"), job("other", handler={"type": "cleanup"}))
    etl = store.trigger("slow-one")
    store.trigger("other")

    assert store.claim(store.node("a"), 5, queues=["reports"]) == []
    assert [claim.run_id for claim in store.claim(store.node("b"), 5, queues=["etl"])] == [etl]
    assert store.claim(store.node("c"), 5) == [], "nobody here runs cleanup"


@pytest.mark.case("PRI-02")
def test_an_urgent_run_whose_worker_died_is_the_next_one_claimed(store: Store) -> None:
    store.apply(job("urgent", priority=9), job("bulk", priority=1))
    urgent = store.trigger("urgent")
    store.claim(store.node("dies"))
    for _ in range(300):
        store.clock.turn(0.1)
        store.trigger("bulk")
    store.clock.turn(1)
    store.lead("leader")
    store.reap()

    (claim,) = store.claim(store.node("lives"))

    assert (claim.run_id, claim.fence) == (urgent, 2)


def test_runs_are_claimed_by_priority_and_age(store: Store) -> None:
    """A waiting run gains one level a minute, so age beats priority in the end (C4)."""
    store.apply(job("low", priority=1), job("high", priority=3))
    old_low = store.trigger("low")
    store.clock.turn(119)
    high = store.trigger("high")
    store.clock.turn(2)
    late_high = store.trigger("high")

    claimed = [claim.run_id for claim in store.claim(store.node("a"), 3)]

    assert claimed == [high, old_low, late_high]
