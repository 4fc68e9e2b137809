"""What triggers say beside their timing, through the store: misfire, deadlines, jitter, bounds, suspension."""

from typing import Any

import pytest

from reconciler.clock import SECOND_US, iso
from reconciler.model.policy import Misfire, MisfirePolicy
from reconciler.model.run import AttemptOutcome, RunState
from tests.store.cast import Store, job, queue
from tests.turned import START_US


def triggered(name: str, *triggers: dict[str, Any], **spec: Any) -> Any:
    return job(name, triggers=list(triggers), **spec)


def seconds(rows: list[Any]) -> list[float]:
    """Slots as seconds since the start."""
    return [(row.slot_us - START_US) / SECOND_US for row in rows]


def reasons(store: Store, name: str | None = None) -> list[tuple[float, str]]:
    rows = store.ledger(name)
    return list(zip(seconds(rows), [str(row.reason) for row in rows], strict=True))


def test_each_trigger_is_caught_up_by_its_own_misfire_policy(store: Store) -> None:
    """S2: one outage of 60 s, four triggers, four answers."""
    store.apply(
        triggered("default", {"every": "10s"}),
        triggered("none", {"every": "10s", "misfire": {"policy": "SkipToNext"}}),
        triggered("all", {"every": "10s", "misfire": {"policy": "RunAllMissed", "cap": 2}}),
        triggered("narrow", {"every": "10s", "misfire": {"policy": "RunAllMissed", "window": "30s"}}),
    )
    store.clock.turn(65)

    store.settle()

    on_time = [50.0, 60.0, 70.0]
    assert seconds(store.runs("default")) == [40.0, *on_time]
    assert seconds(store.runs("none")) == on_time
    assert seconds(store.runs("all")) == [30.0, 40.0, *on_time]
    assert seconds(store.runs("narrow")) == [40.0, *on_time]
    assert [reason for _, reason in reasons(store, "all")] == ["CatchUpCap"] * 2
    assert [reason for _, reason in reasons(store, "narrow")] == ["WindowPassed"] * 3


def test_a_trigger_says_only_what_differs_from_the_policy_of_the_house(store: Store) -> None:
    store.apply(triggered("capped", {"every": "10s", "misfire": {"cap": 1}}))
    store.clock.turn(65)

    store.settle(Misfire(MisfirePolicy.RUN_ALL_MISSED))

    assert seconds(store.runs()) == [40.0, 50.0, 60.0, 70.0]


def test_a_changed_misfire_policy_begins_no_new_activation(store: Store) -> None:
    store.apply(triggered("pulse", {"every": "10s"}))
    store.clock.turn(5)
    store.apply(triggered("pulse", {"every": "10s", "misfire": {"policy": "SkipToNext"}}))
    store.clock.turn(30)

    store.settle()

    assert (seconds(store.runs()), reasons(store)) == ([20.0, 30.0, 40.0], [(10.0, "MisfireSkipped")])


def test_slots_past_their_starting_deadline_are_recorded_and_never_run_late(store: Store) -> None:
    store.apply(triggered("pulse", {"every": "1m", "startingDeadline": "30s"}))
    store.clock.turn(95)

    store.settle()

    assert (seconds(store.runs()), reasons(store)) == ([], [(60.0, "DeadlineExpired")])


def test_a_run_that_nobody_starts_in_time_is_recorded_as_expired(store: Store) -> None:
    store.apply(triggered("pulse", {"every": "1m"}, startingDeadline="30s"))
    store.clock.turn(60)
    store.settle()
    store.promote()
    store.clock.turn(29)
    early = store.expire()
    store.clock.turn(1)
    claimed = store.claim(store.node("a"))

    (run_id,) = store.expire()

    assert (early, claimed) == ([], [])
    assert (store.run(run_id).state, store.run(run_id).reason) == (RunState.SKIPPED, "DeadlineExpired")
    assert store.ledger() == []


@pytest.mark.parametrize("spec", [{}, {"max": 2}])
def test_runs_that_expired_hide_no_others_while_nobody_leads(store: Store, spec: dict[str, int]) -> None:
    store.apply(queue("q", **spec), job("late", queue="q", startingDeadline="1s"), job("fine", queue="q"))
    for _ in range(3):
        store.trigger("late")
    store.clock.turn(2)
    run_id = store.trigger("fine")

    assert [each.run_id for each in store.claim(store.node("a"), 1)] == [run_id]
    assert len(store.expire()) == 3


def test_a_run_that_was_started_in_time_does_not_expire_when_its_node_is_lost(store: Store) -> None:
    store.apply(job("by-hand", startingDeadline="10s"))
    run_id = store.trigger("by-hand")
    store.claim(store.node("a"))
    store.clock.turn(60)
    store.reap()

    assert store.expire() == []
    assert [each.run_id for each in store.claim(store.node("b"))] == [run_id]


def test_a_retry_has_its_own_starting_deadline(store: Store) -> None:
    retry = {"maxAttempts": 2, "backoff": "Fixed", "initial": "1m"}
    store.apply(job("by-hand", startingDeadline="10s", retry=retry))
    run_id = store.trigger("by-hand")
    node = store.node("a")
    store.finish(node, store.claim(node)[0], AttemptOutcome.FAILED)
    store.clock.turn(65)
    store.promote()
    in_time = store.expire()
    store.clock.turn(5)

    assert (in_time, store.expire()) == ([], [run_id])


def test_jitter_spreads_runs_and_every_leader_draws_the_same(store: Store) -> None:
    store.apply(
        triggered("spread", {"every": "1m", "jitter": "40s"}), triggered("other", {"every": "1m", "jitter": "40s"})
    )
    store.clock.turn(60)
    store.settle()
    drawn = {run.definition: run.due_us - run.slot_us for run in store.runs()}
    store.lead("leader-b")
    store.apply(triggered("spread", {"every": "1m", "jitter": "40s"}, description="the same"))
    store.clock.turn(60)
    store.settle()

    assert len(set(drawn.values())) == 2
    assert all(0 <= offset < 40 * SECOND_US for offset in drawn.values())
    offsets = [run.due_us - run.slot_us for run in store.runs("spread")]
    assert offsets[0] == drawn["spread"] != offsets[1]


def test_an_edit_leaves_a_run_whose_slot_has_passed_and_takes_back_the_later_ones(store: Store) -> None:
    """S2, S6: a run that waits for its share of the jitter belongs to the old activation."""
    store.apply(triggered("spread", {"every": "10s", "jitter": "60s"}))
    store.clock.turn(8)
    store.settle()
    store.clock.turn(2)

    store.apply(triggered("spread", {"every": "7s", "jitter": "60s"}))
    store.clock.turn(5)
    store.settle()

    assert seconds(store.runs()) == [10.0, 17.0]


def test_a_trigger_that_is_taken_out_leaves_no_slot_without_an_answer(store: Store) -> None:
    store.apply(triggered("spread", {"every": "10s", "jitter": "60s"}))
    store.clock.turn(12)
    store.settle()

    store.apply(triggered("spread"))

    (run,) = store.runs()
    assert (run.state, run.reason) == (RunState.CANCELLED, "DefinitionRemoved")


def test_a_trigger_has_no_slots_outside_its_bounds(store: Store) -> None:
    bounds = {"notBefore": iso(START_US + 20 * SECOND_US), "notAfter": iso(START_US + 40 * SECOND_US)}
    store.apply(triggered("bounded", {"every": "10s", "anchor": iso(START_US), **bounds}))
    for _ in range(8):
        store.clock.turn(10)
        store.settle()

    assert (seconds(store.runs()), store.ledger()) == ([20.0, 30.0, 40.0], [])


def test_one_suspended_trigger_stops_alone_and_its_slots_are_recorded(store: Store) -> None:
    both = {"name": "slow", "every": "20s"}, {"name": "fast", "every": "10s"}
    store.apply(triggered("two", *both))
    store.clock.turn(8)
    store.settle()

    store.apply(triggered("two", both[0], {**both[1], "suspend": True}))
    store.clock.turn(22)
    store.settle()
    store.apply(triggered("two", *both))
    store.clock.turn(10)
    store.settle()

    assert seconds(store.runs()) == [20.0, 40.0, 40.0]
    assert reasons(store) == [(10.0, "Suspended"), (20.0, "Suspended"), (30.0, "Suspended")]


@pytest.mark.parametrize("spec", [{"every": "10s", "misfire": {"policy": "RunAllMissed"}}, {"every": "10s"}])
def test_whatever_the_rules_each_slot_has_exactly_one_end(store: Store, spec: dict[str, Any]) -> None:
    """S1, S2."""
    store.apply(triggered("pulse", {**spec, "jitter": "15s", "startingDeadline": "90s"}))
    for step in (25, 300, 10, 5, 60, 7):
        store.clock.turn(step)
        store.settle()
        store.promote()
        store.expire()

    assert sorted(seconds(store.runs()) + seconds(store.ledger())) == [10.0 * at for at in range(1, 42)]
