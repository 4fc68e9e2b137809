"""Being the leader (invariants L2-L4): trust, handover, duties that survive."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.event import listen, remove

from reconciler.engine.clockwatch import ClockWatch
from reconciler.engine.leader import Candidate, TermBegun, TermEnded, TermResigned
from reconciler.engine.loop import Duties, Duty, DutyFailed
from reconciler.engine.materialise import Materialise
from reconciler.engine.reap import NodeBuried, Reap, RunsReaped
from reconciler.errors import NotLeaderError, StoreUnavailableError
from reconciler.model.lease import Term, Timings
from reconciler.model.policy import DEFAULT_MISFIRE
from reconciler.model.run import RunState
from reconciler.store import leader, places, queue_views
from reconciler.store.database import Database
from reconciler.store.slots import Bounds
from reconciler.telemetry import Event
from tests.lost import lose_first_answer, losing
from tests.store.cast import Store, job

TIMINGS = Timings()
BOUNDS = Bounds.of(TIMINGS, DEFAULT_MISFIRE)


@contextmanager
def statements() -> Iterator[list[str]]:
    """The queries and changes that are sent to any store meanwhile."""
    asked: list[str] = []

    def note(*told: Any) -> None:
        if told[2].split(None, 1)[0].upper() in {"SELECT", "UPDATE", "INSERT", "DELETE", "WITH"}:
            asked.append(told[2])

    listen(Engine, "before_cursor_execute", note)
    yield asked
    remove(Engine, "before_cursor_execute", note)


@pytest.fixture
def free(store: Store) -> Store:
    """A store that nobody leads."""
    store.database.tx(lambda tx: leader.release(tx, store.term))
    return store


def candidate(store: Store, owner: str) -> Candidate:
    return Candidate(store.database, owner=owner, timings=TIMINGS, clock=store.clock)


def test_a_candidate_leads_when_nobody_does(free: Store, events: list[Event]) -> None:
    first, second = candidate(free, "a"), candidate(free, "b")

    first.step()
    second.step()

    assert first.term().owner == "a"
    with pytest.raises(NotLeaderError):
        second.term()
    assert [type(event) for event in events] == [TermBegun]


def test_a_leader_that_renews_keeps_its_term(free: Store) -> None:
    first = candidate(free, "a")
    first.step()
    number = first.term().number

    for _ in range(10):
        free.clock.turn(5)
        first.step()

    assert first.term().number == number


def test_a_leader_stops_believing_before_others_may_begin(free: Store) -> None:
    """The trust window is counted from before the request and ends before the term does."""
    first, second = candidate(free, "a"), candidate(free, "b")
    first.step()
    free.clock.turn(14)

    with pytest.raises(NotLeaderError):
        first.term()
    second.step()
    with pytest.raises(NotLeaderError):
        second.term()


def test_a_stalled_leader_is_followed_and_told_so(free: Store, events: list[Event]) -> None:
    first, second = candidate(free, "a"), candidate(free, "b")
    first.step()
    free.clock.turn(15)
    second.step()
    first.step()

    assert second.term().number == 3
    with pytest.raises(NotLeaderError):
        first.term()
    assert [type(event) for event in events] == [TermBegun, TermBegun, TermEnded]


def test_a_leader_that_stops_hands_over_at_once(free: Store, events: list[Event]) -> None:
    """L3."""
    first, second = candidate(free, "a"), candidate(free, "b")
    first.step()
    first.resign()
    second.step()

    assert second.term().owner == "b"
    assert [type(event) for event in events] == [TermBegun, TermResigned, TermBegun]
    assert max(event.level for event in events) == logging.INFO, "that somebody stops a leader is no warning"


def test_a_lead_that_was_granted_and_not_answered_is_taken_up_at_the_next_try(
    free: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: otherwise nobody would lead until it ran out."""
    url = free.database.url.render_as_string(hide_password=False)
    with losing(url) as way:
        far = Database.open(way.url, clock=free.clock, turned=True)
        first, second = Candidate(far, owner="a", timings=TIMINGS, clock=free.clock), candidate(free, "b")
        lost = lose_first_answer(monkeypatch, way, leader, "acquire")
        with pytest.raises(StoreUnavailableError):
            first.step()
        with pytest.raises(NotLeaderError):
            first.term()

        second.step()
        first.step()
        found = first.term()
        far.close()

    assert [found] == lost
    with pytest.raises(NotLeaderError):
        second.term()


def test_one_bad_duty_does_not_stop_the_others(free: Store, events: list[Event]) -> None:
    """X2."""
    done: list[str] = []

    def bad(_term: Term) -> float:
        raise ValueError("bad row")

    def good(_term: Term) -> float:
        done.append("good")
        return 1.0

    lead = candidate(free, "a")
    lead.step()
    duties = Duties(lead, [Duty("bad", bad), Duty("good", good)], clock=free.clock, exclusive=threading.Lock())

    for _ in range(3):
        free.clock.turn(duties.step())

    assert len(done) >= 3
    assert {event.error for event in events if isinstance(event, DutyFailed)} == {"ValueError: bad row"}


def test_a_duty_that_finds_another_term_makes_the_leader_stand_down(free: Store) -> None:
    lead = candidate(free, "a")
    lead.step()
    free.term = lead.term()
    free.apply(job("pulse", every="1s"))
    free.clock.turn(1)
    duty = Duty("materialise", Materialise(free.database, BOUNDS, watch=ClockWatch(free.clock)).step)
    duties = Duties(lead, [duty], clock=free.clock, exclusive=threading.Lock())
    free.database.tx(lambda tx: leader.release(tx, lead.term()))
    free.lead("b")

    duties.step()

    with pytest.raises(NotLeaderError):
        lead.term()


def test_materialise_wakes_when_the_next_run_is_due(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    duty = Materialise(store.database, BOUNDS, watch=ClockWatch(store.clock))
    store.clock.turn(9.4)

    pause = duty.step(store.term)
    store.clock.turn(pause)
    duty.step(store.term)

    assert pause == pytest.approx(0.6)
    assert [run.state for run in store.runs()] == [RunState.PENDING]


def test_the_reaper_brings_back_what_a_dead_node_held(store: Store, events: list[Event]) -> None:
    store.apply(job("report"))
    run_id = store.trigger("report")
    store.claim(store.node("a"))
    store.clock.turn(31)
    store.lead("b")

    Reap(store.database).step(store.term)
    Reap(store.database).step(store.term)

    assert store.run(run_id).state is RunState.PENDING
    assert [type(event) for event in events] == [NodeBuried, RunsReaped]


def test_what_opens_a_term_is_done_once_under_each_before_any_duty_and_until_it_succeeds(free: Store) -> None:
    done: list[str] = []
    store_is_away = [True]

    def opening(term: Term) -> None:
        if store_is_away:
            store_is_away.pop()
            raise StoreUnavailableError("away")
        done.append(f"term {term.number}")

    def work(_term: Term) -> float:
        done.append("duty")
        return 0.0

    lead = candidate(free, "a")
    duties = Duties(lead, [Duty("work", work)], clock=free.clock, exclusive=threading.Lock(), openings=[opening])
    lead.step()
    for _ in range(3):
        free.clock.turn(duties.step())
    lead.resign()
    lead.step()
    duties.step()

    assert done == ["term 2", "duty", "duty", "term 3", "duty"]


def test_each_term_sets_its_own_cap_over_all_queues(free: Store) -> None:
    """C1: what the settings of the leader say holds from the beginning of its term, and no longer than it leads."""

    def cap() -> int | None:
        found = free.database.read(queue_views.listed)
        return next((each.max_running for each in found if each.name == "*"), None)

    def set_cap(term: Term, most: int | None) -> None:
        free.database.tx(lambda tx: places.set_cap(tx, term, most))

    first, second = candidate(free, "a"), candidate(free, "b")
    first.step()
    set_cap(first.term(), 3)
    capped = cap()
    first.resign()
    second.step()
    set_cap(second.term(), None)

    assert (capped, cap()) == (3, None)
    with pytest.raises(NotLeaderError):
        set_cap(Term(2, "a"), 3)


def test_a_duty_with_nothing_to_do_asks_the_store_once(store: Store) -> None:
    """Very many triggers that are far off cost one look each second."""
    store.apply(job("far", triggers=[{"cron": "0 0 29 2 *"}]))
    duty = Materialise(store.database, BOUNDS, watch=ClockWatch(store.clock))
    duty.step(store.term)

    with statements() as asked:
        pauses = [duty.step(store.term) for _ in range(3)]

    assert pauses == [1.0, 1.0, 1.0]
    assert len(asked) == 3


def test_a_slot_that_people_hold_back_or_that_is_broken_does_not_keep_the_leader_busy(store: Store) -> None:
    store.apply(job("paused", every="10s"), job("broken", every="10s"))
    store.pause("paused")
    with store.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE triggers SET timing = '{}' WHERE id = 2")
    duty = Materialise(store.database, BOUNDS, watch=ClockWatch(store.clock))
    store.clock.turn(8)

    assert duty.step(store.term) == 1.0


def test_a_reaper_that_sees_nothing_asks_once_and_still_takes_a_whole_turn_now_and_then(store: Store) -> None:
    store.apply(job("report"))
    duty = Reap(store.database)
    duty.step(store.term)

    with statements() as idle:
        for _ in range(3):
            duty.step(store.term)
    with statements() as whole:
        duty.step(store.term)

    assert len(idle) == 3
    assert len(whole) > 3
