"""Calendars through the store: what is skipped, what waits, and how both follow a calendar that changes."""

import json
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import delete

from reconciler.clock import SECOND_US, iso, to_us
from reconciler.model.kinds import Declared
from reconciler.model.run import RunState
from reconciler.schedule.resolve import holidays_of
from reconciler.store import calendars
from reconciler.store import slots as owed
from reconciler.store.tables import run_history
from tests.store.cast import ON_TIME_US, Store, calendar, job
from tests.turned import START_US


def at(seconds: float) -> str:
    """An instant, that many seconds after the start."""
    return iso(START_US + round(seconds * SECOND_US))


def closed(first: float, last: float, name: str = "freeze") -> Declared:
    return calendar(name, {"from": at(first), "to": at(last)})


def minding(action: str, **trigger: Any) -> Declared:
    return job("pulse", triggers=[{"every": "10s", "calendars": [{"name": "freeze", "action": action}], **trigger}])


def pass_time(store: Store, seconds: int, *, step: int = 5) -> None:
    """Let time pass as a leader sees it."""
    for _ in range(0, seconds, step):
        store.clock.turn(step)
        store.settle()
        store.promote()


def slots(rows: list[Any]) -> list[float]:
    return [(row.slot_us - START_US) / SECOND_US for row in rows]


def told(store: Store) -> dict[float, tuple[str, str | None]]:
    rows = store.ledger()
    return dict(zip(slots(rows), [(str(row.reason), row.detail) for row in rows], strict=True))


def test_slots_in_a_closed_time_are_skipped_and_the_calendar_is_named(store: Store) -> None:
    store.apply(closed(25, 45), minding("Skip"))

    pass_time(store, 60)

    assert slots(store.runs()) == [10.0, 20.0, 50.0, 60.0]
    assert told(store) == {
        30.0: ("BlackoutSkipped", "calendar freeze"),
        40.0: ("BlackoutSkipped", "calendar freeze"),
    }


def test_deferred_slots_become_one_run_when_the_calendar_opens(store: Store) -> None:
    store.apply(closed(25, 55), minding("Defer"))

    pass_time(store, 55)

    waiting = {(row.slot_us - START_US) / SECOND_US: (row.due_us - START_US) / SECOND_US for row in store.runs()}
    assert waiting == {10.0: 10.0, 20.0: 20.0, 50.0: 55.0, 60.0: 60.0}
    assert {slot: reason for slot, (reason, _) in told(store).items()} == {30.0: "Deferred", 40.0: "Deferred"}
    assert told(store)[30.0][1] == f"to {at(55)} by calendar freeze: one run with slot {at(40)}"


@pytest.mark.parametrize("action", ["Skip", "Defer"])
def test_a_calendar_that_closes_takes_back_what_was_made_ahead(store: Store, action: str) -> None:
    store.apply(closed(1000, 2000), minding(action))
    pass_time(store, 10)
    store.clock.turn(7)
    store.settle()
    assert slots(store.runs()) == [10.0, 20.0]

    store.apply(closed(15, 35))
    pass_time(store, 28)

    skipped = {"Skip": [20.0, 30.0], "Defer": [20.0]}[action]
    assert list(told(store)) == skipped
    assert slots(store.runs()) == [each for each in (10.0, 20.0, 30.0, 40.0, 50.0) if each not in skipped]


def test_an_edited_calendar_lets_an_interval_keep_its_beat(store: Store) -> None:
    store.apply(closed(1000, 2000), minding("Skip"))
    pass_time(store, 15)

    store.apply(closed(500, 600))
    pass_time(store, 25)

    assert slots(store.runs()) == [10.0, 20.0, 30.0, 40.0]
    assert store.ledger() == []


def test_deferred_slots_run_at_once_when_the_calendar_is_lifted(store: Store) -> None:
    store.apply(closed(5, 1000), minding("Defer", every="10s"))
    pass_time(store, 30)
    assert (list(told(store)), store.runs()) == ([10.0, 20.0, 30.0], [])

    store.apply(closed(5, 29))

    assert list(told(store)) == [10.0, 20.0]
    (run,) = store.runs()
    assert (slots([run]), run.state, run.due_us) == ([30.0], RunState.PENDING, START_US + 30 * SECOND_US)
    pass_time(store, 20)
    assert slots(store.runs()) == [30.0, 40.0, 50.0]


def test_deferred_slots_go_on_waiting_while_the_calendar_stays_closed(store: Store) -> None:
    store.apply(closed(5, 1000), minding("Defer", every="10s"))
    pass_time(store, 30)

    store.apply(closed(5, 900))

    assert (list(told(store)), store.runs()) == ([10.0, 20.0, 30.0], [])


def test_a_changed_timing_does_not_lose_what_was_deferred(store: Store) -> None:
    """S6: the slots of the old activation stay its own, also those that wait for the calendar."""
    store.apply(closed(5, 60), minding("Defer", every="10s"))
    pass_time(store, 30)

    store.apply(minding("Defer", every="1000s"))
    pass_time(store, 35)

    assert list(told(store)) == [10.0, 20.0]
    (run,) = store.runs()
    assert (slots([run]), run.due_us) == ([30.0], START_US + 60 * SECOND_US)


def weekday_work(cron: str, **spec: Any) -> Declared:
    minds = [{"name": spec.pop("minds", "we"), "action": "Defer"}]
    return job("report", triggers=[{"cron": cron, "calendars": minds}], **spec)


WEEKEND = {"weekdays": ["Sat", "Sun"]}


def go_to(store: Store, instant: str) -> None:
    """Let time pass until then, with a leader that does its duties at the end."""
    store.clock.turn((to_us(datetime.fromisoformat(instant)) - store.clock.at_us) / SECOND_US)
    store.lead("leader-a")
    while store.settle().more:
        pass
    store.promote()
    store.end_pauses()


def of(rows: list[Any]) -> list[tuple[str, str]]:
    """Slot and due instant of runs."""
    return [(iso(row.slot_us), iso(row.due_us)) for row in rows]


def because(store: Store) -> list[tuple[str, str]]:
    return [(iso(row.slot_us), str(row.reason)) for row in store.ledger()]


@pytest.mark.parametrize("edited", [weekday_work("0 13 * * *"), calendar("we", {"weekdays": ["Sun"]})])
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_deferred_slot_whose_run_is_over_does_not_run_at_a_later_edit(
    store: Store, edited: Declared, *, is_forgotten: bool
) -> None:
    """S1: each deferral is for one opening; an edit on Monday started Saturday's slot again."""
    store.apply(calendar("we", WEEKEND), weekday_work("0 12 * * *"))
    for instant in ("2026-01-03T12:00:01Z", "2026-01-04T12:00:01Z", "2026-01-05T00:00:01Z"):
        go_to(store, instant)
    node = store.node("worker")
    for claim in store.claim(node, 10):
        store.finish(node, claim)
    if is_forgotten:
        store.database.tx(lambda tx: tx.execute(delete(run_history)))
    store.clock.turn(10 * 3600)
    store.lead("leader-a")

    store.apply(edited)

    assert ("2026-01-03T12:00:00Z", "Deferred") in because(store)
    assert "2026-01-03T12:00:00Z" not in [slot for slot, _ in of(store.runs())]


def test_a_deferral_goes_by_the_calendar_of_now_through_several_edits(store: Store) -> None:
    store.apply(closed(5, 100), minding("Defer", every="10s"))
    pass_time(store, 30)
    store.apply(closed(5, 200))
    assert told(store)[30.0][1] == f"to {at(200)} by calendar freeze: one run with slot {at(40)}"
    pass_time(store, 90)

    store.apply(closed(5, 119))

    assert slots(store.runs()) == [120.0]
    store.apply(closed(5, 110))
    assert slots(store.runs()) == [120.0]


def test_a_renamed_calendar_starts_nothing_before_it_opens(store: Store) -> None:
    store.apply(calendar("we", WEEKEND), weekday_work("0 * * * *"))
    go_to(store, "2026-01-03T10:00:01Z")
    go_to(store, "2026-01-03T11:00:01Z")

    store.apply(calendar("weekend", WEEKEND), weekday_work("0 * * * *", minds="weekend"), remove_calendars=["we"])

    assert because(store)[-1] == ("2026-01-03T11:00:00Z", "Deferred")
    go_to(store, "2026-01-05T00:00:01Z")
    assert of(store.runs())[-1] == ("2026-01-05T00:00:00Z", "2026-01-05T00:00:00Z")
    assert not [slot for slot, _ in of(store.runs()) if "2026-01-03" <= slot < "2026-01-05"]


@pytest.mark.parametrize("edited", [weekday_work("30 12 * * *"), calendar("we", {"weekdays": ["Sun"]})])
def test_no_edit_starts_a_paused_job(store: Store, edited: Declared) -> None:
    store.apply(calendar("we", WEEKEND), weekday_work("0 12 * * *"))
    go_to(store, "2026-01-03T12:00:01Z")
    store.pause("report", reason="mart rebuilt")
    store.clock.turn(600)
    made = len(store.runs())

    store.apply(edited)

    assert len(store.runs()) == made
    (row,) = (each for each in store.ledger() if iso(each.slot_us) == "2026-01-03T12:00:00Z")
    assert (row.reason, row.detail) == ("Paused", "by ops: mart rebuilt")


@pytest.mark.parametrize("by", ["pause", "file"])
@pytest.mark.parametrize("begun", ["2026-01-04T10:00:00Z", "2026-01-04T20:00:00Z"])
def test_a_hold_that_ends_before_the_calendar_opens_takes_nothing(store: Store, by: str, begun: str) -> None:
    """S2: Sunday's slot stands for the weekend, and was lost to a hold of a few hours."""
    store.apply(calendar("we", WEEKEND), weekday_work("0 12 * * *"))
    go_to(store, "2026-01-03T12:00:01Z")
    go_to(store, begun)
    if by == "pause":
        store.pause("report")
    else:
        store.apply(weekday_work("0 12 * * *", suspend=True))
    go_to(store, "2026-01-04T21:00:00Z")
    if by == "pause":
        store.resume("report")
    else:
        store.apply(weekday_work("0 12 * * *"))
    go_to(store, "2026-01-05T00:00:01Z")

    assert of(store.runs())[-1] == ("2026-01-04T12:00:00Z", "2026-01-05T00:00:00Z")
    assert because(store)[-1] == ("2026-01-03T12:00:00Z", "Deferred")


def test_catching_up_waits_for_the_calendar(store: Store) -> None:
    store.apply(calendar("we", WEEKEND), weekday_work("0 12 * * 6"))
    store.pause("report")
    go_to(store, "2026-01-03T12:00:01Z")
    store.resume("report", catch_up=True)
    go_to(store, "2026-01-03T13:00:00Z")

    (run,) = store.runs()
    assert (of([run]), run.state) == ([("2026-01-03T12:00:00Z", "2026-01-05T00:00:00Z")], RunState.SCHEDULED)


def test_no_edited_calendar_starts_a_suspended_job(store: Store) -> None:
    store.apply(calendar("we", WEEKEND), weekday_work("0 12 * * *"))
    go_to(store, "2026-01-03T12:00:01Z")
    made = len(store.runs())
    store.apply(weekday_work("0 12 * * *", suspend=True))

    store.apply(calendar("we", {"weekdays": ["Sun"]}))

    assert len(store.runs()) == made
    assert because(store)[-1] == ("2026-01-03T12:00:00Z", "Suspended")


def test_a_single_waiting_run_follows_its_calendar_both_ways(store: Store) -> None:
    once = job("once", triggers=[{"at": at(10), "calendars": [{"name": "freeze", "action": "Defer"}]}])
    store.apply(closed(5, 1000), once)
    pass_time(store, 20)
    assert [row.due_us for row in store.runs()] == [START_US + 1000 * SECOND_US]

    store.apply(closed(5, 2000))
    assert [row.due_us for row in store.runs()] == [START_US + 2000 * SECOND_US]

    store.apply(closed(5, 6))
    store.promote()
    (run,) = store.runs()
    assert (run.state, run.due_us) == (RunState.PENDING, store.clock.now_us())


def test_waiting_runs_that_come_to_be_due_together_become_one(store: Store) -> None:
    store.apply(closed(5, 15), minding("Defer"))
    pass_time(store, 10, step=10)
    assert [(row.due_us - START_US) / SECOND_US for row in store.runs()] == [15.0]

    store.apply(closed(5, 45))
    pass_time(store, 50)

    assert told(store).keys() == {10.0, 20.0, 30.0}
    assert slots(store.runs()) == [40.0, 50.0, 60.0]


def test_a_run_that_is_due_stays_whatever_the_calendar_says_now(store: Store) -> None:
    """Found by the simulation: a run that nobody had promoted yet was taken back after its instant."""
    store.apply(closed(1000, 2000), minding("Skip"))
    store.clock.turn(8)
    store.settle()
    store.clock.turn(3)
    (run,) = store.runs()
    assert run.state is RunState.SCHEDULED

    store.apply(closed(1, 30))
    store.promote()

    assert [(slots([each]), each.state) for each in store.runs()] == [([10.0], RunState.PENDING)]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_step_back_and_an_edit_bring_no_begun_slot_back(store: Store, *, is_over: bool) -> None:
    """Found by the simulation (S1): the run had begun by a clock that no pass had settled by."""
    node = store.node("worker")
    store.apply(closed(1000, 2000), minding("Skip"))
    store.clock.turn(8)
    store.settle()
    store.clock.turn(3)
    store.promote()
    (claim,) = store.claim(node)
    if is_over:
        store.clock.turn(1)
        store.finish(node, claim)
    store.clock.at_us -= 7 * SECOND_US

    store.apply(closed(2, 30))
    pass_time(store, 20)

    assert 10.0 not in told(store)
    assert slots(store.runs()).count(10.0) == 1


def test_what_a_trigger_owed_before_an_edit_goes_by_the_old_calendar(store: Store) -> None:
    store.apply(closed(5, 100), minding("Skip"))
    store.clock.turn(35)

    store.apply(closed(1, 2))
    store.settle()

    assert {slot: reason for slot, (reason, _) in told(store).items()} == dict.fromkeys(
        (10.0, 20.0, 30.0), "BlackoutSkipped"
    )
    assert slots(store.runs()) == [40.0]


def test_a_calendar_that_only_reads_differently_plans_nothing_anew(store: Store) -> None:
    store.apply(closed(1000, 2000), minding("Skip"))
    pass_time(store, 15)
    before = [(row.id, row.slot_us) for row in store.runs()]

    store.apply(calendar("freeze", {"from": at(1000), "to": at(2000)}, description="Nobody is there."))

    assert [(row.id, row.slot_us) for row in store.runs()] == before


def test_holidays_are_stored_as_dates_with_the_version_that_knew_them(store: Store) -> None:
    store.apply(calendar("feasts", {"holidays": {"country": "DE", "subdivision": "BE"}}, timeZone="Europe/Berlin"))

    (found,) = store.database.read(calendars.stored)

    assert json.loads(found.windows)["windows"] == [{"dates": holidays_of("DE", "BE")}]
    assert {"2026-03-08", "2026-04-03", "2026-12-25"} <= set(holidays_of("DE", "BE"))
    assert (found.resolved_with.partition(" ")[0], found.last_day) == ("holidays", "2060-12-31")


def test_a_calendar_that_is_taken_out_leaves_the_store(store: Store) -> None:
    store.apply(closed(1, 2), closed(3, 4, "other"))

    store.apply(remove_calendars=["other"])

    assert [each.name for each in store.database.read(calendars.stored)] == ["freeze"]


def test_what_was_missed_and_what_waits_is_counted(store: Store) -> None:
    """For misfires_total and deferred_total."""
    store.apply(closed(5, 65), minding("Defer"), job("late", every="10s"))
    store.clock.turn(55)

    settled = store.settle()

    assert settled.misfires == {"FireNow": 3}  # 10, 20 and 30 s: noticed by more than 20 s too late
    assert settled.deferred == {"freeze": 6}


def test_after_an_outage_over_a_long_closed_time_only_the_newest_missed_slot_runs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that looked at skipped slots only took its own missed ones for the newest."""
    monkeypatch.setattr(owed, "SLOTS_PER_TRIGGER", 5)
    monkeypatch.setattr(owed, "_LOOKS_AT", 20)
    store.apply(closed(25, 595), minding("Skip"))
    store.clock.turn(700)

    while store.settle().more:
        pass

    assert slots(store.runs()) == [670.0, 680.0, 690.0, 700.0]


def test_an_outage_over_a_closed_time_is_no_misfire(store: Store) -> None:
    """S2: what the calendar says stands; only open slots are caught up."""
    store.apply(closed(5, 45), minding("Skip", misfire={"policy": "RunAllMissed"}))
    store.clock.turn(45 + ON_TIME_US // SECOND_US)

    store.settle()

    assert slots(store.runs()) == [50.0, 60.0, 70.0]
    assert {reason for reason, _ in told(store).values()} == {"BlackoutSkipped"}
