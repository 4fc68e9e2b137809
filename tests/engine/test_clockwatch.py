"""Clock discipline (S4): the store's clock is set, and no slot is lost, doubled or run early for it."""

from typing import Any

import pytest

from reconciler.clock import SECOND_US
from reconciler.engine.clockwatch import ClockSteady, ClockStepped, ClockWatch
from reconciler.engine.materialise import Materialise
from reconciler.model.lease import Timings
from reconciler.model.policy import DEFAULT_MISFIRE
from reconciler.store.slots import Bounds
from reconciler.telemetry import Event
from tests.store.cast import Store, job
from tests.turned import START_US, TurnedClock

BOUNDS = Bounds.of(Timings(), DEFAULT_MISFIRE)


def seconds(rows: list[Any]) -> list[float]:
    """Slots as seconds since the start."""
    return sorted((row.slot_us - START_US) / SECOND_US for row in rows)


class Leading:
    """A leader that materialises, on a clock that can be set."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.watch = ClockWatch(store.clock)
        self.duty = Materialise(store.database, BOUNDS, watch=self.watch)

    def work(self, span: int) -> None:
        for _ in range(span):
            self.store.clock.turn(1)
            self.duty.step(self.store.term)

    def set_clock(self, by: int) -> None:
        """Set the wall clock alone."""
        self.store.clock.at_us += by * SECOND_US


@pytest.fixture
def leading(store: Store) -> Leading:
    store.apply(job("pulse", every="10s"))
    made = Leading(store)
    made.work(12)
    return made


def test_a_step_forward_holds_and_then_the_slots_it_jumped_over_go_by_the_misfire_policy(
    leading: Leading, events: list[Event]
) -> None:
    leading.set_clock(300)
    leading.work(4)
    held = seconds(leading.store.runs())
    leading.work(4)

    assert held == [10.0]
    assert [type(event) for event in events if isinstance(event, ClockStepped | ClockSteady)] == [
        ClockStepped,
        ClockSteady,
    ]
    # 12 s became 312 s, then 8 s passed: up to 300 s the slots were missed; the newest of them runs.
    assert seconds(leading.store.runs()) == [10.0, 290.0, 300.0, 310.0, 320.0]
    assert {(row.reason, row.detail) for row in leading.store.ledger()} == {
        ("ClockStep", "the clock jumped over it; then MisfireSkipped")
    }
    assert len(leading.store.ledger()) == 27


def test_a_step_that_is_taken_back_at_once_has_done_nothing(leading: Leading) -> None:
    leading.set_clock(3600)
    leading.work(2)
    leading.set_clock(-3600)
    leading.work(18)

    assert (seconds(leading.store.runs()), leading.store.ledger()) == ([10.0, 20.0, 30.0], [])


def test_a_step_back_brings_no_slot_again_and_the_next_one_runs_when_its_instant_comes(leading: Leading) -> None:
    leading.set_clock(-8)
    leading.work(20)

    assert (seconds(leading.store.runs()), leading.store.ledger()) == ([10.0, 20.0], [])


def test_runs_that_wait_are_not_woken_early_while_the_clock_is_not_steady(leading: Leading) -> None:
    """S3."""
    leading.work(5)
    leading.set_clock(60)
    leading.work(3)
    leading.set_clock(-60)
    (waiting,) = [run for run in leading.store.runs() if run.slot_us == START_US + 20 * SECOND_US]

    assert waiting.state == "Scheduled"


def test_a_clock_that_is_corrected_slowly_is_trusted(events: list[Event]) -> None:
    clock = TurnedClock()
    watch = ClockWatch(clock)
    for _ in range(1000):
        clock.turn(60)
        clock.at_us += round(0.03 * SECOND_US)
        assert watch.look(clock.now_us) is None

    assert not watch.is_held
    assert events == []


def test_an_answer_that_takes_long_is_no_step(events: list[Event]) -> None:
    clock = TurnedClock()
    watch = ClockWatch(clock)
    watch.look(clock.now_us)

    def slow() -> int:
        read_us = clock.now_us()
        clock.turn(12)
        return read_us

    watch.look(slow)
    clock.turn(1)
    watch.look(clock.now_us)

    assert events == []


def test_what_happened_under_another_leader_is_no_step(leading: Leading, events: list[Event]) -> None:
    leading.store.clock.turn(60)
    leading.set_clock(60)
    leading.store.lead("leader-b")
    leading.watch.begin(leading.store.term)
    leading.store.clock.turn(1)
    leading.duty.step(leading.store.term)

    assert not [event for event in events if isinstance(event, ClockStepped)]
