"""Retries, backoff and dead letters (invariants R1, R3, R7) on both databases."""

from reconciler.model.run import AttemptOutcome, Outcome, RunState
from reconciler.store import claims, queries, runs
from tests.store.cast import Store, job

FIXED = {"maxAttempts": 3, "backoff": "Fixed", "initial": "10s"}


def fail(store: Store, result: AttemptOutcome = AttemptOutcome.FAILED, **facts: object) -> None:
    """Claim the one claimable run and end it badly."""
    node = store.node("a")
    (claim,) = store.claim(node)
    outcome = Outcome(claim.run_id, claim.fence, claim.attempt, result, started_us=0, finished_us=1, **facts)  # type: ignore[arg-type] # facts of an Outcome
    store.database.tx(lambda tx: claims.finish(tx, node, [outcome]))


def test_a_failed_run_waits_for_its_backoff_and_no_less(store: Store) -> None:
    """R7."""
    store.apply(job("flaky", retry=FIXED))
    run_id = store.trigger("flaky")
    fail(store, exit_code=1)

    waiting = store.run(run_id)
    store.clock.turn(9.9)
    early = store.promote()
    store.clock.turn(0.1)
    woken = store.promote()

    assert (waiting.state, waiting.node, waiting.attempt) == (RunState.RETRYING, None, 1)
    assert (early, woken) == (0, 1)
    (claim,) = store.claim(store.node("b"))
    assert (claim.attempt, claim.fence) == (2, 2)


def test_a_run_that_uses_up_its_attempts_is_dead_lettered_with_its_last_outcome(store: Store) -> None:
    store.apply(job("flaky", retry=FIXED))
    run_id = store.trigger("flaky")
    for _ in range(3):
        fail(store, AttemptOutcome.TIMED_OUT, error="ran into its timeout")
        store.clock.turn(10)
        store.promote()

    run = store.run(run_id)
    (letter,) = store.database.read(lambda tx: queries.dead_letters(tx, limit=10))
    assert (run.state, run.reason, run.attempt) == (RunState.DEAD_LETTERED, "AttemptsUsedUp", 3)
    assert (letter.run_id, letter.definition, letter.reason, letter.last_outcome, letter.error) == (
        run_id,
        "flaky",
        "AttemptsUsedUp",
        "TimedOut",
        "ran into its timeout",
    )
    assert len(store.database.read(lambda tx: queries.attempts_of(tx, run_id))) == 3


def test_a_run_that_succeeds_at_last_is_no_dead_letter(store: Store) -> None:
    store.apply(job("flaky", retry=FIXED))
    run_id = store.trigger("flaky")
    fail(store, exit_code=1)
    store.clock.turn(10)
    store.promote()
    node = store.node("b")

    assert store.finish(node, store.claim(node)[0])

    assert store.run(run_id).state is RunState.SUCCEEDED
    assert store.database.read(lambda tx: queries.dead_letters(tx, limit=10)) == []


def test_a_refusal_is_not_tried_again(store: Store) -> None:
    store.apply(job("flaky", retry=FIXED))
    run_id = store.trigger("flaky")

    fail(store, error="program not admitted", is_permanent=True)

    assert store.run(run_id).state is RunState.FAILED


def test_lost_leases_do_not_use_up_attempts(store: Store) -> None:
    """R3: executions <= maxAttempts + maxLostLeases."""
    store.apply(
        job("flaky", retry={"maxAttempts": 2, "backoff": "Fixed", "initial": "1s"}, poison={"maxLostLeases": 5})
    )
    run_id = store.trigger("flaky")
    for _ in range(4):
        assert store.claim(store.node("dies"))
        store.clock.turn(31)
        store.lead("leader")
        store.reap()
    fail(store, exit_code=1)
    after_first_failure = store.run(run_id)
    store.clock.turn(1)
    store.promote()
    fail(store, exit_code=1)

    assert (after_first_failure.state, after_first_failure.lost_leases) == (RunState.RETRYING, 4)
    assert (store.run(run_id).state, store.run(run_id).attempt) == (RunState.DEAD_LETTERED, 6)


def test_a_poisonous_run_is_parked_by_its_own_budget(store: Store) -> None:
    store.apply(job("poison", poison={"maxLostLeases": 1}))
    run_id = store.trigger("poison")
    store.claim(store.node("dies"))
    store.clock.turn(31)
    store.lead("leader")

    reaped = store.reap()

    (letter,) = store.database.read(lambda tx: queries.dead_letters(tx, limit=10))
    assert list(reaped.parked) == [run_id]
    assert (letter.reason, letter.last_outcome) == ("TooManyLostLeases", "LostLease")


def test_a_lost_lease_that_its_worker_reports_counts_like_one_that_is_reaped(store: Store) -> None:
    """R3: the guard ended the job since its lease could not be kept, and the report came while it still held."""
    store.apply(job("stalls", poison={"maxLostLeases": 2}))
    run_id = store.trigger("stalls")

    fail(store, AttemptOutcome.LOST_LEASE, error="the lease is over")
    first = store.run(run_id)
    fail(store, AttemptOutcome.LOST_LEASE, error="the lease is over")

    run = store.run(run_id)
    (letter,) = store.database.read(lambda tx: queries.dead_letters(tx, limit=10))
    assert (first.state, first.attempt, first.lost_leases) == (RunState.PENDING, 1, 1)
    assert (run.state, run.reason, run.attempt, run.lost_leases) == (RunState.DEAD_LETTERED, "TooManyLostLeases", 2, 1)
    assert (letter.reason, letter.last_outcome, letter.error) == ("TooManyLostLeases", "LostLease", "the lease is over")


def test_a_lost_lease_is_counted_once_however_many_tell_of_it(store: Store) -> None:
    """R7: the worker reports it, hears no answer, reports it again; and the reaper comes."""
    store.apply(job("stalls"))
    run_id = store.trigger("stalls")
    node = store.node("a")
    (claim,) = store.claim(node)

    assert store.finish(node, claim, AttemptOutcome.LOST_LEASE)
    assert store.finish(node, claim, AttemptOutcome.LOST_LEASE)
    store.clock.turn(31)
    store.lead("leader")
    store.reap()

    assert (store.run(run_id).state, store.run(run_id).lost_leases) == (RunState.PENDING, 1)
    assert len(store.database.read(lambda tx: queries.attempts_of(tx, run_id))) == 1


def test_a_lost_lease_is_no_failed_attempt(store: Store) -> None:
    """R3: what a worker reports of it leaves all attempts to failures."""
    store.apply(job("flaky", retry={**FIXED, "maxAttempts": 2}))
    run_id = store.trigger("flaky")

    fail(store, AttemptOutcome.LOST_LEASE)
    fail(store)

    assert (store.run(run_id).state, store.run(run_id).attempt) == (RunState.RETRYING, 2)


def test_a_retry_goes_by_the_generation_the_run_is_bound_to(store: Store) -> None:
    store.apply(job("flaky", retry=FIXED))
    run_id = store.trigger("flaky")
    store.apply(job("flaky"))

    fail(store, exit_code=1)

    assert (store.run(run_id).state, store.run(run_id).generation) == (RunState.RETRYING, 1)


def test_a_waiting_retry_can_be_cancelled(store: Store) -> None:
    """R9."""
    store.apply(job("flaky", retry=FIXED))
    run_id = store.trigger("flaky")
    fail(store, exit_code=1)

    store.database.tx(lambda tx: runs.cancel(tx, run_id, actor="os:operator"))
    store.clock.turn(60)

    assert store.promote() == 0
    assert store.run(run_id).state is RunState.CANCELLED


def test_a_retry_queues_by_its_backoff_instant(store: Store) -> None:
    store.apply(job("flaky", retry=FIXED), job("fresh"))
    retried = store.trigger("flaky")
    fail(store, exit_code=1)
    store.clock.turn(5)
    earlier = store.trigger("fresh")
    store.clock.turn(6)
    later = store.trigger("fresh")
    store.promote()

    claimed = [claim.run_id for claim in store.claim(store.node("b"), 3)]

    assert claimed == [earlier, retried, later]
