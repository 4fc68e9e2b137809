"""What becomes of a run when an attempt ended: backoff, budgets, dead letters (invariant R3)."""

import pytest

from reconciler.clock import SECOND_US
from reconciler.model.policy import Backoff, Ended, Retry, after_attempt
from reconciler.model.run import AttemptOutcome, RunState


def delay_seconds(retry: Retry, failures: int, seed: str = "1/1") -> float:
    return retry.delay_us(failures, seed=seed) / SECOND_US


def retry(backoff: Backoff, *, initial: int, most: int, factor: int = 2, attempts: int = 2000) -> Retry:
    return Retry(attempts, backoff, initial * SECOND_US, most * SECOND_US, factor)


@pytest.mark.case("PRC-09")
def test_an_exponential_backoff_is_capped_while_it_grows() -> None:
    slow = retry(Backoff.EXPONENTIAL, initial=300, most=3600)

    delays = [delay_seconds(slow, attempt - 1) for attempt in (2, 3, 4, 5, 6, 7, 1100)]

    assert delays == [300, 600, 1200, 2400, 3600, 3600, 3600]
    assert delay_seconds(retry(Backoff.EXPONENTIAL, initial=300, most=3600, factor=100), 199) == 3600
    assert delay_seconds(slow, 10**6) == 3600


@pytest.mark.case("PRC-09")
def test_jitter_stays_between_half_the_delay_and_the_delay() -> None:
    jittered = retry(Backoff.EXPONENTIAL_JITTER, initial=10, most=100)

    delays = [delay_seconds(jittered, 3, seed=f"{number}/1") for number in range(1000)]

    assert 20 <= min(delays) < 21
    assert 39 < max(delays) <= 40
    assert delay_seconds(jittered, 10**6) <= 100
    assert delay_seconds(jittered, 3, seed="7/1") == delay_seconds(jittered, 3, seed="7/1")


@pytest.mark.case("PRC-09")
def test_the_attempts_are_exactly_as_many_as_allowed_and_then_the_run_is_parked() -> None:
    many = retry(Backoff.FIXED, initial=1, most=1, attempts=2000)

    targets = [
        after_attempt(Ended(AttemptOutcome.FAILED, failures, 0, 1), many, max_lost_leases=3)
        for failures in range(1, 2001)
    ]

    assert set(targets[:-1]) == {RunState.RETRYING}
    assert targets[-1] is RunState.DEAD_LETTERED


def test_fixed_and_linear_backoffs() -> None:
    assert [delay_seconds(retry(Backoff.FIXED, initial=5, most=60), n) for n in (1, 2, 50)] == [5, 5, 5]
    assert [delay_seconds(retry(Backoff.LINEAR, initial=5, most=60), n) for n in (1, 2, 50)] == [5, 10, 60]


@pytest.mark.parametrize(
    ("result", "final"),
    [(AttemptOutcome.FAILED, RunState.FAILED), (AttemptOutcome.TIMED_OUT, RunState.TIMED_OUT)],
)
def test_a_run_with_one_attempt_ends_as_it_failed(result: AttemptOutcome, final: RunState) -> None:
    assert after_attempt(Ended(result, 1, 0, None), Retry(), max_lost_leases=3) is final


def test_exit_codes_decide_what_is_tried_again() -> None:
    picky = Retry(3, on_codes=frozenset({75}), never_on_codes=frozenset({64}))

    targets = {
        code: after_attempt(Ended(AttemptOutcome.FAILED, 1, 0, code), picky, max_lost_leases=3)
        for code in (75, 64, 1, None)
    }

    assert targets == {
        75: RunState.RETRYING,
        64: RunState.FAILED,
        1: RunState.FAILED,
        None: RunState.RETRYING,
    }


def test_what_another_attempt_would_only_repeat_is_not_tried_again() -> None:
    refused = Ended(AttemptOutcome.FAILED, 1, 0, None, is_permanent=True)

    assert after_attempt(refused, Retry(5), max_lost_leases=3) is RunState.FAILED


def test_lost_leases_have_a_budget_of_their_own() -> None:
    def after(lost_leases: int) -> RunState:
        return after_attempt(Ended(AttemptOutcome.LOST_LEASE, 0, lost_leases), Retry(5), max_lost_leases=2)

    assert [after(1), after(2)] == [RunState.PENDING, RunState.DEAD_LETTERED]
