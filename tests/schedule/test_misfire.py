"""What becomes of slots as they come due: law S2, and case MIS-01."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.clock import iso, to_us
from reconciler.model.definition import CronTiming
from reconciler.model.policy import DEFAULT_MISFIRE, Misfire, MisfirePolicy
from reconciler.model.run import SkipReason
from reconciler.model.trigger import Rules
from reconciler.schedule.misfire import Now, settle
from reconciler.schedule.occurrences import compile_timing
from reconciler.schedule.timeline import Planned

SECOND = 10**6
ON_TIME = 20 * SECOND
MINUTELY = compile_timing(CronTiming("* * * * *", "UTC"), activated_us=0)
DOWN_FROM = to_us(datetime(2026, 1, 5, 8, 29, 30, tzinfo=UTC))
UP_AGAIN = to_us(datetime(2026, 1, 5, 10, 20, 30, tzinfo=UTC))
NOW = Now(UP_AGAIN, ON_TIME)


def at(*slots: int) -> list[Planned]:
    """Slots that are due at their own instants."""
    return [Planned(slot, slot) for slot in slots]


def by(policy: MisfirePolicy, **fields: int) -> Rules:
    return Rules(Misfire(policy, **fields))


def runs(decided: list[Planned]) -> list[str]:
    return [iso(each.slot_us)[11:16] for each in decided if each.reason is None]


def after_the_outage(policy: MisfirePolicy, window_us: int = DEFAULT_MISFIRE.window_us) -> list[Planned]:
    missed = MINUTELY.between(DOWN_FROM, UP_AGAIN, limit=1000)
    assert len(missed) == 111
    return settle(at(*missed), NOW, rules=by(policy, window_us=window_us))


@pytest.mark.case("MIS-01")
def test_fire_now_runs_the_newest_missed_slot_once() -> None:
    decisions = after_the_outage(MisfirePolicy.FIRE_NOW)

    assert runs(decisions) == ["10:20"]
    assert {decision.reason for decision in decisions} - {None} == {SkipReason.MISFIRE_SKIPPED}


@pytest.mark.case("MIS-01")
def test_skip_to_next_runs_none_and_records_each() -> None:
    decisions = after_the_outage(MisfirePolicy.SKIP_TO_NEXT)

    assert runs(decisions) == []
    assert len(decisions) == 111


@pytest.mark.case("MIS-01")
def test_run_all_keeps_the_newest_up_to_the_cap() -> None:
    decisions = after_the_outage(MisfirePolicy.RUN_ALL_MISSED)

    assert len(runs(decisions)) == DEFAULT_MISFIRE.cap
    assert runs(decisions)[-1] == "10:20"
    assert [decision.reason for decision in decisions[:11]] == [SkipReason.CATCH_UP_CAP] * 11


@pytest.mark.case("MIS-01")
def test_the_window_bounds_what_is_caught_up() -> None:
    decisions = after_the_outage(MisfirePolicy.RUN_ALL_MISSED, window_us=3600 * SECOND)

    assert len(runs(decisions)) == 60
    assert runs(decisions)[0] == "09:21"
    assert {decision.reason for decision in decisions[:51]} == {SkipReason.WINDOW_PASSED}


def test_a_slot_noticed_in_time_runs_under_every_policy() -> None:
    for policy in MisfirePolicy:
        assert settle(at(UP_AGAIN - ON_TIME), NOW, rules=by(policy)) == at(UP_AGAIN - ON_TIME)


def test_a_slot_ahead_of_the_clock_runs() -> None:
    assert settle(at(UP_AGAIN + SECOND), NOW)[0].reason is None


def test_the_newest_missed_slot_runs_beside_one_that_is_on_time() -> None:
    decided = settle(at(UP_AGAIN - 120 * SECOND, UP_AGAIN - 60 * SECOND, UP_AGAIN), NOW)

    assert [each.reason is None for each in decided] == [False, True, True]


def test_a_slot_is_late_by_when_it_is_due_not_by_its_own_instant() -> None:
    """Jitter and calendars let a run wait; nobody missed it meanwhile."""
    waits = Planned(UP_AGAIN - 3600 * SECOND, UP_AGAIN - ON_TIME)

    assert settle([waits], NOW, rules=by(MisfirePolicy.SKIP_TO_NEXT)) == [waits]


def test_a_list_cut_short_holds_no_newest_missed_slot() -> None:
    slots, later = at(UP_AGAIN - 180 * SECOND, UP_AGAIN - 120 * SECOND), at(UP_AGAIN - 60 * SECOND)

    fire_now = settle(slots, NOW, following=later)
    run_all = settle(slots, NOW, rules=by(MisfirePolicy.RUN_ALL_MISSED, cap=2), following=later)

    assert [each.reason is None for each in fire_now] == [False, False]
    assert [each.reason for each in run_all] == [SkipReason.CATCH_UP_CAP, None]


def test_only_slots_that_would_run_count_as_newer() -> None:
    """The newest missed slot is the newest that nothing else holds back."""
    open_slot, closed = at(UP_AGAIN - 180 * SECOND)[0], UP_AGAIN - 120 * SECOND
    blocked = Planned(closed, closed, SkipReason.BLACKOUT_SKIPPED)

    assert settle([open_slot, blocked], NOW) == [open_slot, blocked]
    assert settle([open_slot], NOW, following=[blocked]) == [open_slot]


def test_a_slot_past_its_starting_deadline_is_recorded_and_the_one_before_does_not_run_instead() -> None:
    rules = Rules(starting_deadline_us=90 * SECOND)
    slots = at(UP_AGAIN - 120 * SECOND, UP_AGAIN - 60 * SECOND)

    assert [each.reason for each in settle(slots, NOW, rules=rules)] == [SkipReason.DEADLINE_EXPIRED, None]
    assert [each.reason for each in settle(slots[:1], NOW, rules=rules)] == [SkipReason.DEADLINE_EXPIRED]


def test_what_people_hold_back_is_recorded_with_their_reason_whatever_the_policy() -> None:
    held = {UP_AGAIN: (SkipReason.PAUSED, "by ops: a reason")}

    (earlier, paused) = settle(at(UP_AGAIN - SECOND, UP_AGAIN), NOW, held=held.get)

    assert (earlier.reason, paused.reason, paused.detail) == (None, SkipReason.PAUSED, "by ops: a reason")


def test_slots_that_the_clock_jumped_over_say_so_when_they_do_not_run() -> None:
    stepped = Now(UP_AGAIN, ON_TIME, stepped=(UP_AGAIN - 150 * SECOND, UP_AGAIN))
    slots = at(UP_AGAIN - 180 * SECOND, UP_AGAIN - 120 * SECOND, UP_AGAIN - 60 * SECOND)

    before, over, newest = settle(slots, stepped)

    assert (before.reason, over.reason, newest.reason) == (SkipReason.MISFIRE_SKIPPED, SkipReason.CLOCK_STEP, None)
    assert over.detail == "the clock jumped over it; then MisfireSkipped"


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_cutting_the_list_anywhere_decides_the_same(data: st.DataObject) -> None:
    """Every slot gets one decision (S2), however the missed slots come in batches."""
    slots = data.draw(st.lists(st.integers(0, 200), unique=True).map(sorted))
    blocked = data.draw(st.sets(st.sampled_from(slots))) if slots else set()
    planned = [Planned(slot, slot, SkipReason.BLACKOUT_SKIPPED if slot in blocked else None) for slot in slots]
    rules = Rules(
        Misfire(
            data.draw(st.sampled_from(MisfirePolicy)), data.draw(st.integers(1, 250)), data.draw(st.integers(1, 10))
        ),
        data.draw(st.none() | st.integers(1, 250)),
    )
    now = Now(200, data.draw(st.integers(0, 50)))
    cut = data.draw(st.integers(0, len(slots)))

    whole = settle(planned, now, rules=rules)

    assert [each.slot_us for each in whole] == slots
    assert (
        settle(planned[:cut], now, rules=rules, following=planned[cut:]) + settle(planned[cut:], now, rules=rules)
        == whole
    )
