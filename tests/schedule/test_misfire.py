from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.clock import iso, to_us
from reconciler.model.definition import CronTiming
from reconciler.model.policy import MisfirePolicy
from reconciler.model.run import SkipReason
from reconciler.schedule.misfire import DEFAULT, Decision, Misfire, settle
from reconciler.schedule.occurrences import compile_timing

SECOND = 10**6
ON_TIME = 20 * SECOND
MINUTELY = compile_timing(CronTiming("* * * * *", "UTC"), activated_us=0)
DOWN_FROM = to_us(datetime(2026, 1, 5, 8, 29, 30, tzinfo=UTC))
UP_AGAIN = to_us(datetime(2026, 1, 5, 10, 20, 30, tzinfo=UTC))


def runs(decisions: list[Decision]) -> list[str]:
    return [iso(decision.slot_us)[11:16] for decision in decisions if decision.run]


def after_the_outage(policy: MisfirePolicy, window_us: int = DEFAULT.window_us) -> list[Decision]:
    missed = MINUTELY.between(DOWN_FROM, UP_AGAIN, limit=1000)
    assert len(missed) == 111
    return settle(missed, now_us=UP_AGAIN, on_time_us=ON_TIME, misfire=Misfire(policy, window_us))


@pytest.mark.case("MIS-01")
def test_fire_now_runs_the_newest_missed_slot_once() -> None:
    decisions = after_the_outage(MisfirePolicy.FIRE_NOW)

    assert runs(decisions) == ["10:20"]
    assert {decision.reason for decision in decisions if not decision.run} == {SkipReason.MISFIRE_SKIPPED}


@pytest.mark.case("MIS-01")
def test_skip_to_next_runs_none_and_records_each() -> None:
    decisions = after_the_outage(MisfirePolicy.SKIP_TO_NEXT)

    assert runs(decisions) == []
    assert len(decisions) == 111


@pytest.mark.case("MIS-01")
def test_run_all_keeps_the_newest_up_to_the_cap() -> None:
    decisions = after_the_outage(MisfirePolicy.RUN_ALL_MISSED)

    assert len(runs(decisions)) == DEFAULT.cap
    assert runs(decisions)[-1] == "10:20"
    assert [decision.reason for decision in decisions[:11]] == [SkipReason.CATCH_UP_CAP] * 11


@pytest.mark.case("MIS-01")
def test_the_window_bounds_what_is_caught_up() -> None:
    decisions = after_the_outage(MisfirePolicy.RUN_ALL_MISSED, window_us=3600 * SECOND)

    assert len(runs(decisions)) == 60
    assert runs(decisions)[0] == "09:21"
    assert {decision.reason for decision in decisions[:51]} == {SkipReason.WINDOW_PASSED}


def test_a_slot_noticed_in_time_runs_under_every_policy() -> None:
    slot = UP_AGAIN - ON_TIME
    for policy in MisfirePolicy:
        assert settle([slot], now_us=UP_AGAIN, on_time_us=ON_TIME, misfire=Misfire(policy)) == [
            Decision(slot, True, None)
        ]


def test_a_slot_ahead_of_the_clock_runs() -> None:
    assert settle([UP_AGAIN + SECOND], now_us=UP_AGAIN, on_time_us=ON_TIME)[0].run


def test_the_newest_missed_slot_runs_beside_one_that_is_on_time() -> None:
    slots = [UP_AGAIN - 120 * SECOND, UP_AGAIN - 60 * SECOND, UP_AGAIN]

    assert [decision.run for decision in settle(slots, now_us=UP_AGAIN, on_time_us=ON_TIME)] == [False, True, True]


def test_a_list_cut_short_holds_no_newest_missed_slot() -> None:
    slots = [UP_AGAIN - 180 * SECOND, UP_AGAIN - 120 * SECOND]

    fire_now = settle(slots, now_us=UP_AGAIN, on_time_us=ON_TIME, more_follow=True)
    run_all = settle(
        slots, now_us=UP_AGAIN, on_time_us=ON_TIME, misfire=Misfire(MisfirePolicy.RUN_ALL_MISSED, cap=2), more_follow=1
    )

    assert [decision.run for decision in fire_now] == [False, False]
    assert [decision.reason for decision in run_all] == [SkipReason.CATCH_UP_CAP, None]


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_cutting_the_list_anywhere_decides_the_same(data: st.DataObject) -> None:
    """Every slot gets one decision (S2), however the missed slots come in batches."""
    now, slots = 200, data.draw(st.lists(st.integers(0, 200), unique=True).map(sorted))
    policy, on_time_us = data.draw(st.sampled_from(MisfirePolicy)), data.draw(st.integers(0, 50))
    window_us, cap = data.draw(st.integers(1, 250)), data.draw(st.integers(1, 10))

    def decide(part: list[int], more_follow: int) -> list[Decision]:
        return settle(
            part,
            now_us=now,
            on_time_us=on_time_us,
            misfire=Misfire(policy, window_us, cap),
            more_follow=more_follow,
        )

    whole = decide(slots, 0)
    cut = data.draw(st.integers(0, len(slots)))
    still_missed = sum(now - slot > on_time_us for slot in slots[cut:])

    assert [decision.slot_us for decision in whole] == slots
    assert all(decision.run == (decision.reason is None) for decision in whole)
    assert decide(slots[:cut], min(still_missed, cap)) + decide(slots[cut:], 0) == whole
