"""Materialising (invariants S1-S4, S6, S7) on both databases."""

import itertools

import pytest

from reconciler.clock import SECOND_US
from reconciler.model.policy import Misfire, MisfirePolicy
from reconciler.model.run import RunState
from reconciler.store import slots
from reconciler.store.tables import runs
from tests.store.cast import AHEAD_US, ON_TIME_US, Store, job
from tests.turned import START_US


def seconds(rows: list) -> list[float]:  # type: ignore[type-arg] # runs and ledger rows alike
    """Slots as seconds since the start."""
    return [(row.slot_us - START_US) / SECOND_US for row in rows]


def test_a_slot_becomes_a_run_a_little_ahead_and_claimable_at_its_instant(store: Store) -> None:
    """S3: never early."""
    store.apply(job("pulse", every="10s"))
    store.clock.turn(6)

    store.settle()
    early = store.claim(store.node("a"))
    store.clock.turn(3.9)
    woken_early = store.promote()
    store.clock.turn(0.1)

    assert [run.state for run in store.runs()] == [RunState.SCHEDULED]
    assert (early, woken_early, store.promote()) == ([], 0, 1)
    assert store.claim(store.node("b"))


def test_settling_twice_makes_nothing_twice(store: Store) -> None:
    """S1, L4."""
    store.apply(job("pulse", every="10s"))
    store.clock.turn(10)

    store.settle()
    again = store.settle()

    assert (again.runs, again.skipped) == (0, {})
    assert seconds(store.runs()) == [10]


def test_a_cursor_that_another_moved_stops_the_second_writer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4: two leaders that read the same cursor write one run."""
    store.apply(job("pulse", every="10s"))
    store.clock.turn(10)
    stale = store.database.read(
        lambda tx: slots._due(tx, store.clock.now_us(), slots.Bounds(AHEAD_US, ON_TIME_US, 10), only=None)  # noqa: SLF001
    )
    store.settle()
    monkeypatch.setattr(slots, "_due", lambda *_args, **_options: stale)

    late = store.settle()

    assert late.runs == 0
    assert seconds(store.runs()) == [10]


@pytest.mark.case("MIS-07")
def test_two_leaders_that_both_believe_in_themselves_make_each_slot_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The term check is taken away; the cursor's compare-and-set alone must hold: 50 jobs, 10 slots, 500 runs."""
    monkeypatch.setattr(slots, "guard", lambda _tx, _term: None)
    store.apply(*(job(f"job-{number:02}", every="1m") for number in range(50)))

    for _ in range(60):
        store.clock.turn(10)
        store.settle()
        store.settle()

    made = store.runs()
    assert len(made) == 500
    assert len({(run.definition, run.slot_us) for run in made}) == 500


@pytest.mark.case("MIS-07")
def test_a_leader_that_loses_and_regains_the_lead_makes_each_slot_once(store: Store) -> None:
    store.apply(job("pulse", every="1m"))

    for turn in range(1, 61):
        store.clock.turn(10)
        store.lead(f"leader-{turn % 3}")
        store.settle()

    assert seconds(store.runs()) == [60 * minute for minute in range(1, 11)]


@pytest.mark.case("MIS-12")
def test_an_interval_counts_from_its_activation_whatever_restarts(store: Store) -> None:
    store.apply(job("weekly", every="7d"))
    day = 24 * 3600

    for _ in range(21):
        store.clock.turn(day)
        store.lead("restarted")
        store.settle()

    assert seconds(store.runs()) == [7 * day, 14 * day, 21 * day]


@pytest.mark.case("MIS-01")
def test_after_an_outage_the_newest_missed_slot_runs_and_the_others_are_recorded(store: Store) -> None:
    """FireNow, the default: 111 slots missed, one run, 110 records, and the schedule goes on."""
    store.apply(job("minutely", triggers=[{"cron": "* * * * *"}]))
    store.clock.turn(111 * 60 + 30)
    store.lead("leader-b")

    store.settle()

    assert seconds(store.runs()) == [111 * 60]
    assert seconds(store.ledger()) == [60 * minute for minute in range(1, 111)]
    assert {row.reason for row in store.ledger()} == {"MisfireSkipped"}
    store.clock.turn(30)
    store.settle()
    assert seconds(store.runs())[-1] == 112 * 60


def test_a_slot_noticed_within_ttl_and_five_seconds_is_on_time(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.clock.turn(30)
    store.lead("leader-b")

    store.settle()

    assert seconds(store.runs()) == [10, 20, 30]
    assert store.ledger() == []


def test_many_missed_slots_are_settled_in_bounded_steps(store: Store) -> None:
    """No slot is lost at the border of two steps."""
    store.apply(job("pulse", every="1s"))
    store.clock.turn(1200)
    store.lead("leader-b")

    steps = 1
    while store.settle().more:
        steps += 1

    settled = sorted([*seconds(store.runs()), *seconds(store.ledger())])
    assert steps == 3
    assert settled == list(range(1, 1206))


def test_the_newest_missed_slots_run_up_to_the_cap_also_across_steps(store: Store) -> None:
    store.apply(job("pulse", every="1s"))
    store.clock.turn(1220)
    store.lead("leader-b")
    policy = Misfire(MisfirePolicy.RUN_ALL_MISSED, cap=300)

    while store.settle(policy).more:
        pass

    missed = [at for at in seconds(store.runs()) if at < 1200]
    assert missed == list(range(900, 1200))
    assert seconds(store.ledger()) == list(range(1, 900))
    assert {row.reason for row in store.ledger()} == {"CatchUpCap"}


def test_missed_slots_outside_the_window_do_not_run(store: Store) -> None:
    store.apply(job("hourly", every="1h"))
    store.clock.turn(10 * 3600 + 60)
    store.lead("leader-b")

    store.settle(Misfire(MisfirePolicy.FIRE_NOW, window_us=30 * SECOND_US))

    assert store.runs() == []
    assert {row.reason for row in store.ledger()} == {"WindowPassed"}


def test_slots_of_a_suspended_job_are_recorded_as_they_pass_and_not_caught_up(store: Store) -> None:
    store.apply(job("pulse", every="10s", suspend=True))
    for _ in range(3):
        store.clock.turn(10)
        store.settle()
    store.apply(job("pulse", every="10s"))
    store.clock.turn(10)
    store.settle()

    assert seconds(store.ledger()) == [10, 20, 30]
    assert {row.reason for row in store.ledger()} == {"Suspended"}
    assert seconds(store.runs()) == [40]


def test_suspending_takes_back_what_was_made_ahead_and_says_so(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.clock.turn(7)
    store.settle()
    store.apply(job("pulse", every="10s", suspend=True))
    store.clock.turn(5)
    store.promote()

    assert store.runs() == []
    assert [(row.reason, row.slot_us - START_US) for row in store.ledger()] == [("Suspended", 10 * SECOND_US)]


def test_a_slot_that_a_suspension_took_back_may_fire_in_a_new_activation(store: Store) -> None:
    """S1, S6: found by simulation (seed 3927): a run and a ledger row for the same slot."""
    store.apply(job("pulse", every="10s"))
    store.clock.turn(7)
    store.settle()
    store.apply(job("pulse", every="10s", suspend=True))
    store.apply(job("pulse", triggers=[{"every": "5s", "anchor": "2026-01-01T00:00:00Z"}]))
    store.clock.turn(3)
    store.settle()

    assert store.ledger() == []
    assert seconds(store.runs()) == [10, 15]


def test_a_step_back_of_the_wall_before_an_edit_does_not_bring_a_slot_back(store: Store) -> None:
    """S1, S4: found by simulation (seed 3545): the run of the slot is over, so nothing stops a second one."""
    every = {"anchor": "2026-01-01T00:00:00Z"}
    store.apply(job("pulse", triggers=[{"every": "10s", **every}]))
    node = store.node("a")
    store.clock.turn(10)
    store.settle()
    store.finish(node, store.claim(node)[0])
    store.clock.at_us -= SECOND_US
    store.apply(job("pulse", triggers=[{"every": "5s", **every}]))
    store.clock.turn(1)
    store.settle()

    assert seconds(store.runs()) == [10, 15]


@pytest.mark.case("MIS-05")
def test_a_new_schedule_does_not_count_slots_before_its_edit_as_missed(store: Store) -> None:
    """(a) The old 23:00 is gone, and 05:00 of this morning was never a slot of the new schedule."""
    store.apply(job("mail", triggers=[{"cron": "0 23 * * *"}]))
    store.clock.turn(23 * 3600)
    store.settle()
    store.clock.turn(13 * 3600)
    store.apply(job("mail", triggers=[{"cron": "0 5 * * *"}]))
    for _ in range(36):
        store.settle()
        store.clock.turn(3600)

    day = 24 * 3600
    assert seconds(store.runs()) == [23 * 3600, 2 * day + 5 * 3600]
    assert seconds(store.ledger()) == []


@pytest.mark.case("MIS-05")
def test_moving_todays_time_later_does_not_run_the_job_twice_today(store: Store) -> None:
    """(b) It ran at 01:15; at 04:00 the file says 02:15: next is tomorrow."""
    store.apply(job("nightly", triggers=[{"cron": "15 1 * * 1-5"}]))
    store.clock.turn(3600 + 900)
    store.settle()
    store.clock.turn(4 * 3600 - 4500)
    store.apply(job("nightly", triggers=[{"cron": "15 2 * * 1-5"}]))
    for _ in range(24):
        store.clock.turn(3600)
        store.settle()

    day = 24 * 3600
    assert seconds(store.runs()) == [4500, day + 2 * 3600 + 900]


def test_an_edit_between_look_ahead_and_slot_leaves_one_of_the_two(store: Store) -> None:
    """S6: the slot belongs to the activation that is in force at its instant."""
    store.apply(job("pulse", every="10s"))
    store.clock.turn(8)
    store.settle()
    store.apply(job("pulse", triggers=[{"every": "10s", "anchor": "2026-01-01T00:00:05Z"}]))
    for _ in range(20):
        store.settle()
        store.promote()
        store.clock.turn(1)

    assert seconds([run for run in store.runs() if run.state is RunState.PENDING]) == [15, 25]


def test_runs_already_due_stay_when_their_trigger_is_edited(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.clock.turn(10)
    store.settle()
    store.apply(job("pulse", every="1h"))

    (run,) = store.runs()
    assert (run.state, run.generation) == (RunState.PENDING, 1)


def test_waiting_runs_follow_an_edit_that_leaves_their_trigger_alone(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.clock.turn(6)
    store.settle()
    store.apply(job("pulse", every="10s", priority=9, queue="fast"))

    (run,) = store.runs()
    assert (run.state, run.generation, run.priority, run.queue) == (RunState.SCHEDULED, 2, 9, "fast")


def test_slots_due_before_an_edit_are_settled_by_the_old_schedule(store: Store) -> None:
    """S2, S6: the leader was away; the edit arrives first, and nothing owed is forgotten."""
    store.apply(job("pulse", every="1m"))
    store.clock.turn(185)
    store.lead("leader-b")

    store.apply(job("pulse", every="1h"))

    assert seconds(store.runs()) == [120, 180], "the newest missed slot, and the one that is on time"
    assert seconds(store.ledger()) == [60]


@pytest.mark.parametrize("gap", [0, 1, 5, 9])
def test_every_slot_ends_in_exactly_one_place_under_random_edits(store: Store, gap: int) -> None:
    """S1, S2, S6: edits at any phase; the union of runs and ledger has each instant of the schedule in force once."""
    schedules = itertools.cycle(["3s", "7s", "2s"])
    expected: list[float] = []
    for _ in range(6):
        every = next(schedules)
        store.apply(job("pulse", every=every))
        start, step = (store.clock.now_us() - START_US) / SECOND_US, int(every[:-1])
        for _ in range(10 + gap):
            store.clock.turn(1)
            store.settle()
            store.promote()
        end = (store.clock.now_us() - START_US) / SECOND_US
        expected += [start + step * number for number in range(1, 100) if start + step * number <= end]

    due = [run for run in store.runs() if run.state is not RunState.SCHEDULED]
    assert sorted([*seconds(due), *seconds(store.ledger())]) == sorted(expected)


def test_pruning_a_run_row_never_lets_its_slot_come_back(store: Store) -> None:
    """S7: the cursor is the memory."""
    store.apply(job("pulse", every="10s"))
    store.clock.turn(10)
    store.settle()
    store.database.tx(lambda tx: tx.execute(runs.delete()))

    store.settle()

    assert store.runs() == []


def test_a_job_that_fires_for_the_last_time_has_no_next_fire(store: Store) -> None:
    store.apply(job("once", triggers=[{"at": "2026-01-01T00:00:10Z"}]))
    store.clock.turn(10)
    store.settle()

    assert store.database.read(slots.outlook).next_fire_us is None
    assert seconds(store.runs()) == [10]
