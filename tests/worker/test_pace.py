from pathlib import Path

from reconciler.worker.options import WorkerOptions
from reconciler.worker.pace import Drain, Pace, Silence

OPTIONS = WorkerOptions("n1", "sqlite:///x", drain_timeout_seconds=30.0, data=Path("data"))


def test_polls_slow_down_to_the_longest_pause_while_there_is_nothing() -> None:
    pace, now, pauses = Pace(0.02, 1.0), 100.0, []
    for _ in range(9):
        assert pace.is_due(now)
        pauses.append(round(pace.next_at - now, 2))
        assert not pace.is_due(now)
        now = pace.next_at

    assert pauses == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0]


def test_news_make_the_next_poll_immediate_and_the_following_ones_quick() -> None:
    pace = Pace(0.02, 1.0)
    for now in range(20):
        pace.is_due(float(now))
    pace.hurry(50.0)

    assert pace.is_due(50.0)
    assert round(pace.next_at - 50.0, 2) == 0.02


def test_a_drain_waits_for_jobs_up_to_its_timeout_and_then_stops_them() -> None:
    drain = Drain(OPTIONS)
    assert not drain.is_asked
    drain.ask()
    drain.begin(100.0, jobs=2)
    drain.begin(120.0, jobs=1)

    assert [drain.must_stop(now) for now in (129.9, 130.0)] == [False, True]
    assert not drain.is_over(1, is_written=True, now=200.0)
    assert drain.is_over(0, is_written=True, now=101.0)


def test_a_drain_that_is_asked_for_twice_stops_jobs_at_once() -> None:
    drain = Drain(OPTIONS)
    drain.ask()
    drain.begin(100.0, jobs=1)
    drain.ask()

    assert drain.must_stop(100.1)
    assert drain.is_hurried


def test_a_drain_ends_without_a_store_when_its_lease_is_over_anyway() -> None:
    drain = Drain(OPTIONS)
    drain.ask()
    drain.begin(100.0, jobs=1)

    assert not drain.is_over(0, is_written=False, now=130.0 + 29.0)
    assert drain.is_over(0, is_written=False, now=130.0 + 30.0)


def test_a_guard_that_is_silent_while_the_loop_turns_counts_as_hung_at_once() -> None:
    silence = Silence()
    verdicts = [silence.is_hung(now, is_overdue=now >= 101.0) for now in (100.0, 100.25, 100.5, 100.75, 101.0)]

    assert verdicts == [False] * 4 + [True]


def test_after_a_stall_of_the_loop_itself_a_silent_guard_gets_two_seconds_once() -> None:
    silence = Silence()
    assert not silence.is_hung(100.0, is_overdue=False)

    # Each turn takes so long that it looks like one more stall; the first alone counts.
    verdicts = [silence.is_hung(now, is_overdue=True) for now in (130.0, 131.5, 133.0)]
    assert verdicts == [False, False, True]


def test_a_guard_that_speaks_after_a_stall_is_judged_anew() -> None:
    silence = Silence()
    assert [silence.is_hung(now, is_overdue=True) for now in (100.0, 102.0)] == [False, True]
    assert not silence.is_hung(102.25, is_overdue=False)
    assert not silence.is_hung(120.0, is_overdue=True)
