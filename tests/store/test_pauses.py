"""Pauses: the operational stop of a job's triggers, and what becomes of the slots that pass meanwhile."""

from typing import Any

import pytest
from sqlalchemy import select

from reconciler.clock import SECOND_US
from reconciler.errors import NotFoundError, RefusedError
from reconciler.model.run import RunState
from reconciler.store import pauses, slots
from reconciler.store.tables import audit
from tests.store.cast import AHEAD_US, ON_TIME_US, Store, job
from tests.turned import START_US


def seconds(rows: list[Any]) -> list[float]:
    """Slots as seconds since the start."""
    return [(row.slot_us - START_US) / SECOND_US for row in rows]


def settle_for(store: Store, span: int) -> None:
    """Let time pass in steps of five seconds, with a leader that does its duties."""
    for _ in range(span // 5):
        store.clock.turn(5)
        store.settle()
        store.promote()
        store.end_pauses()


def at(offset: float) -> int:
    return START_US + round(offset * SECOND_US)


def test_slots_of_a_paused_job_are_recorded_as_they_pass_with_by_whom_and_not_caught_up(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    settle_for(store, 15)
    store.pause("pulse", reason="a slow mart")
    settle_for(store, 30)
    store.resume("pulse")
    settle_for(store, 20)

    assert seconds(store.runs()) == [10.0, 50.0, 60.0, 70.0]
    assert seconds(store.ledger()) == [20.0, 30.0, 40.0]
    assert {(row.reason, row.detail) for row in store.ledger()} == {("Paused", "by ops: a slow mart")}


def test_a_pause_takes_back_what_was_made_ahead_and_leaves_what_is_due(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    settle_for(store, 10)
    store.clock.turn(7)
    store.settle()

    met = store.pause("pulse")

    assert (met.taken_back, met.waiting, met.running) == (1, 1, 0)
    assert [(run.state, seconds([run])) for run in store.runs()] == [(RunState.PENDING, [10.0])]
    assert seconds(store.ledger()) == [20.0]


def test_a_pause_ends_by_itself(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.pause("pulse", until_us=at(25))
    settle_for(store, 45)

    assert (seconds(store.ledger()), seconds(store.runs())) == ([10.0, 20.0], [30.0, 40.0, 50.0])
    assert store.database.read(lambda tx: pauses.by_job(tx, ["pulse"])) == {}


def test_a_pause_that_no_leader_watched_counts_like_any_other(store: Store) -> None:
    """S2: paused and resumed while nobody led; no slot of the pause is taken for a missed one."""
    store.apply(job("pulse", every="10s"))
    settle_for(store, 10)
    store.clock.turn(5)
    store.pause("pulse")
    store.clock.turn(300)
    store.resume("pulse")
    store.clock.turn(40)
    settle_for(store, 5)

    ledger = store.ledger()
    assert seconds(store.runs()) == [10.0, 330.0, 340.0, 350.0, 360.0]
    assert [row.reason for row in ledger] == ["Paused"] * 30 + ["MisfireSkipped"]


def test_a_slot_that_was_missed_before_the_pause_does_not_start_a_paused_job(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.clock.turn(45)
    store.pause("pulse")
    store.settle()

    assert (store.runs(), seconds(store.ledger())) == ([], [10.0, 20.0, 30.0, 40.0])


def test_resume_with_catch_up_lets_the_misfire_policy_decide_over_the_pause(store: Store) -> None:
    """S1: a slot that is caught up has a run, and its ledger row is gone."""
    every_slot = {"every": "10s", "misfire": {"policy": "RunAllMissed", "cap": 2}}
    store.apply(job("newest", every="10s"), job("some", triggers=[every_slot]), job("running", every="10s"))
    settle_for(store, 5)
    for name in ("newest", "some"):
        store.pause(name)
    settle_for(store, 55)
    for name in ("newest", "some"):
        store.resume(name, catch_up=True)
    ended = store.end_pauses()

    on_time = [40.0, 50.0, 60.0]
    assert [(each.job, each.runs) for each in ended] == [("newest", 4), ("some", 5)]
    assert sorted(seconds(store.runs("newest"))) == [30.0, *on_time]
    assert sorted(seconds(store.runs("some"))) == [20.0, 30.0, *on_time]
    assert seconds(store.ledger("newest")) == [10.0, 20.0]
    assert seconds(store.ledger("some")) == [10.0]
    assert {run.state for run in store.runs("newest")} == {RunState.PENDING}


@pytest.mark.parametrize("until_us", [None, at(6)])
def test_a_pause_that_is_over_before_a_slot_takes_nothing_of_it(store: Store, until_us: int | None) -> None:
    """S2: paused for a second within the look-ahead; the slot after it was lost."""
    store.apply(job("pulse", every="10s"))
    settle_for(store, 5)
    store.settle()
    store.pause("pulse", until_us=until_us)
    store.clock.turn(1)
    if until_us is None:
        store.resume("pulse")
    settle_for(store, 10)

    assert (seconds(store.runs()), seconds(store.ledger())) == ([10.0, 20.0], [])
    assert [run.due_us for run in store.runs()] == [at(10), at(20)]


def test_what_jitter_puts_after_the_end_of_a_pause_runs(store: Store) -> None:
    store.apply(job("pulse", triggers=[{"every": "60s", "jitter": "50s"}]))
    settle_for(store, 60)
    (due_us,) = (run.due_us for run in store.runs())
    assert due_us > at(62)
    store.pause("pulse")
    store.clock.turn(1)
    store.resume("pulse")
    store.end_pauses()

    assert [(run.slot_us, run.due_us) for run in store.runs()] == [(at(60), due_us)]
    assert store.ledger() == []


def test_what_a_pause_and_then_a_suspension_held_runs_when_both_are_over(store: Store) -> None:
    store.apply(job("pulse", triggers=[{"every": "60s", "jitter": "50s"}]))
    settle_for(store, 60)
    (due_us,) = (run.due_us for run in store.runs())
    store.pause("pulse")
    store.apply(job("pulse", suspend=True, triggers=[{"every": "60s", "jitter": "50s"}]))
    store.resume("pulse")
    store.end_pauses()
    assert [(row.slot_us, row.reason) for row in store.ledger()] == [(at(60), "Suspended")]
    store.pause("pulse")
    store.apply(job("pulse", triggers=[{"every": "60s", "jitter": "50s"}]))
    assert [(row.slot_us, row.reason) for row in store.ledger()] == [(at(60), "Paused")]
    store.clock.turn(1)
    store.resume("pulse")
    store.end_pauses()

    assert [(run.slot_us, run.due_us) for run in store.runs()] == [(at(60), due_us)]
    assert store.ledger() == []


def test_catching_up_brings_no_slot_of_before_an_edit_back(store: Store) -> None:
    """S6: it is not what the trigger says now."""
    store.apply(job("pulse", every="10s"))
    store.pause("pulse")
    settle_for(store, 15)
    store.apply(job("pulse", every="7s"))
    settle_for(store, 10)
    store.resume("pulse", catch_up=True)
    store.end_pauses()

    assert (seconds(store.runs()), seconds(store.ledger())) == ([22.0], [10.0])


def test_catching_up_with_one_pause_leaves_the_slots_of_another(store: Store) -> None:
    """Two pauses that no leader saw end: only the second is to be caught up with."""
    store.apply(job("pulse", triggers=[{"every": "10s", "misfire": {"policy": "RunAllMissed"}}]))
    settle_for(store, 5)
    store.pause("pulse", until_us=at(35))
    store.clock.turn(40)
    store.pause("pulse")
    store.settle()
    store.clock.turn(20)
    store.resume("pulse", catch_up=True)
    store.settle()
    store.end_pauses()

    assert seconds(store.ledger()) == [10.0, 20.0, 30.0]
    assert sorted(seconds(store.runs())) == [40.0, 50.0, 60.0, 70.0]


def test_catching_up_starts_nothing_of_a_job_that_is_paused_again(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.pause("pulse")
    settle_for(store, 15)
    store.resume("pulse", catch_up=True)
    store.clock.turn(1)
    store.pause("pulse")

    assert (store.end_pauses(), store.runs()) == ([], [])
    store.clock.turn(2)
    store.resume("pulse")
    assert [(each.job, each.runs) for each in store.end_pauses()] == [("pulse", 1)]
    assert (seconds(store.runs()), store.database.read(lambda tx: pauses.by_job(tx, ["pulse"]))) == ([10.0], {})


def test_a_pause_is_not_over_for_a_slot_of_it_that_is_not_settled(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.pause("pulse")
    store.clock.turn(35)
    store.resume("pulse", catch_up=True)

    before = store.end_pauses()
    store.settle()

    assert (before, [each.runs for each in store.end_pauses()]) == ([], [3])


def test_a_leader_that_read_before_the_pause_writes_nothing_after_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that is under way while somebody pauses must not make a run of a paused job."""
    store.apply(job("pulse", every="10s"))
    store.clock.turn(10)
    bounds = slots.Bounds(AHEAD_US, ON_TIME_US, 10)
    stale = store.database.read(lambda tx: slots._due(tx, store.clock.now_us(), bounds, only=None))  # noqa: SLF001
    store.pause("pulse")
    monkeypatch.setattr(slots, "_due", lambda *_args, **_options: stale)
    late = store.settle()
    monkeypatch.undo()
    store.settle()

    assert (late.runs, late.skipped) == (0, {})
    assert (store.runs(), seconds(store.ledger())) == ([], [10.0])


def test_a_paused_job_stays_paused_whatever_becomes_of_its_file(store: Store) -> None:
    """A commit never un-pauses: neither an edit, nor deleting the job and bringing it back."""
    store.apply(job("pulse", every="10s"))
    store.pause("pulse")
    store.apply(job("pulse", every="5s"))
    store.apply(remove=["pulse"])
    store.apply(job("pulse", every="5s"))
    settle_for(store, 20)

    assert (store.runs(), seconds(store.ledger())) == ([], [5.0, 10.0, 15.0, 20.0])


def test_a_paused_job_still_runs_by_hand(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.pause("pulse")

    assert store.run(store.trigger("pulse")).state is RunState.PENDING


def test_pausing_again_changes_reason_and_end_and_not_the_beginning(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.pause("pulse", reason="first")
    store.clock.turn(5)
    store.pause("pulse", reason="second", until_us=at(60))

    (known,) = store.database.read(pauses.listed)
    assert (known.reason, known.paused_us, known.until_us) == ("second", at(0), at(60))


def test_what_makes_no_sense_is_refused(store: Store) -> None:
    store.apply(job("pulse", every="10s"))

    with pytest.raises(NotFoundError, match=r"there is no job 'plse'"):
        store.pause("plse")
    with pytest.raises(RefusedError, match=r"over before it begins"):
        store.pause("pulse", until_us=at(0))
    with pytest.raises(RefusedError, match=r"job 'pulse' is not paused"):
        store.resume("pulse")


def test_who_paused_resumed_and_ended_is_kept(store: Store) -> None:
    """A1."""
    store.apply(job("pulse", every="10s"))
    store.pause("pulse", reason="why")
    store.resume("pulse")
    store.end_pauses()

    rows = store.database.read(lambda tx: tx.execute(select(audit).where(audit.c.subject == "job/pulse")).all())
    assert [(row.actor, row.action) for row in rows] == [
        ("ops", "job.paused"),
        ("ops", "job.resumed"),
        ("leader/1", "pause.ended"),
    ]


def test_a_pause_can_be_shortened_after_the_clock_stepped_back(store: Store) -> None:
    """Found by the simulation: its end would have come before its beginning."""
    store.apply(job("pulse", every="10s"))
    store.pause("pulse")
    store.clock.at_us -= 60 * SECOND_US

    store.pause("pulse", until_us=store.clock.at_us + 10 * SECOND_US)

    (pause,) = store.database.read(pauses.listed)
    assert pause.paused_us == store.clock.at_us


@pytest.mark.parametrize(
    ("slot_us", "now_us", "held"),
    [(5, 15, True), (15, 15, True), (5, 25, False), (15, 25, True), (20, 15, False)],
    ids=["missed-before-while-on", "within-while-on", "missed-before-and-over", "within-and-over", "at-its-end"],
)
def test_a_pause_that_is_over_holds_back_only_what_passed_while_it_was_on(
    slot_us: int, now_us: int, *, held: bool
) -> None:
    pause = pauses.Pause(1, "job", "", "ops", paused_us=10, until_us=20, catch_up=False)

    assert pause.holds(slot_us, now_us) is held
