"""Caps of queues and of all queues together (invariant C1) on both databases."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from reconciler.clock import SECOND_US
from reconciler.errors import NotLeaderError
from reconciler.model.lease import Session, Term
from reconciler.model.run import AttemptOutcome, Claim, RunState
from reconciler.store import claims, places, queue_views, runs
from reconciler.store.database import Tx
from reconciler.store.queue_tables import places as places_table
from reconciler.store.tables import runs as runs_table
from tests.store.cast import LEASE_US, TTL_US, Store, job, queue

RETRY = {"maxAttempts": 9, "backoff": "Fixed", "initial": "10s"}


def standing(store: Store, name: str) -> queue_views.Queue:
    return {each.name: each for each in store.database.read(queue_views.listed)}[name]


def wait_in(store: Store, name: str, number: int) -> list[int]:
    """Trigger a job that was declared, so many times."""
    return [store.trigger(name) for _ in range(number)]


def cap_everything(store: Store, most: int | None) -> None:
    store.database.tx(lambda tx: places.set_cap(tx, store.term, most))


def test_no_more_runs_of_a_queue_are_held_than_it_has_places(store: Store) -> None:
    """C1."""
    store.apply(queue("narrow", max=2), job("report", queue="narrow"))
    wait_in(store, "report", 5)
    node = store.node("a")

    first = store.claim(node, 10)
    none = store.claim(store.node("b"), 10)
    store.finish(node, first[0])
    second = store.claim(store.node("c"), 10)

    assert (len(first), none, len(second)) == (2, [], 1)
    found = standing(store, "narrow")
    assert (found.max_running, found.suspended, found.running, found.waiting) == (2, False, 2, 2)


def finish(store: Store, node: Session, held: Claim) -> None:
    assert store.finish(node, held)


def fail(store: Store, node: Session, held: Claim) -> None:
    assert store.finish(node, held, AttemptOutcome.FAILED)
    store.clock.turn(10)
    store.promote()


def hand_back(store: Store, node: Session, held: Claim) -> None:
    assert store.database.tx(lambda tx: claims.hand_back(tx, node, [held]))


def cancel(store: Store, node: Session, held: Claim) -> None:
    store.database.tx(lambda tx: runs.cancel(tx, held.run_id, actor="tests"))
    assert store.finish(node, held, AttemptOutcome.CANCELLED)


def lose_the_node(store: Store, _node: Session, _held: Claim) -> None:
    for _ in range(3):
        store.clock.turn(LEASE_US / SECOND_US / 3)
        store.lead(f"leader-at-{store.clock.at_us}")
    store.reap()


@pytest.mark.case("LSE-13")
@pytest.mark.parametrize("end", [finish, fail, hand_back, cancel, lose_the_node])
def test_a_place_is_free_however_a_hold_ends(store: Store, end: Callable[[Store, Session, Claim], None]) -> None:
    """C1: whatever came before, at most one runs, and one always can."""
    store.apply(queue("single", max=1), job("report", queue="single", retry=RETRY, poison={"maxLostLeases": 99}))
    wait_in(store, "report", 7)

    for turn in range(6):
        node = store.node(f"node-{turn}")
        (held,) = store.claim(node, 10)
        assert store.claim(store.node("other"), 10) == []
        end(store, node, held)

    assert len(store.claim(store.node("last"), 10)) == 1


@pytest.mark.case("LSE-13")
def test_a_run_that_waits_for_its_retry_holds_no_place(store: Store) -> None:
    store.apply(queue("single", max=1), job("flaky", queue="single", retry=RETRY), job("other", queue="single"))
    flaky = store.trigger("flaky")
    node = store.node("a")
    store.finish(node, store.claim(node)[0], AttemptOutcome.FAILED)
    other = store.trigger("other")

    (claimed,) = store.claim(node, 10)
    store.clock.turn(10)
    store.promote()
    none = store.claim(node, 10)
    store.finish(node, claimed)
    (again,) = store.claim(node, 10)

    assert (claimed.run_id, none, again.run_id) == (other, [], flaky)


@pytest.mark.case("LSE-13")
def test_a_definition_that_is_deleted_while_it_runs_leaves_no_place_taken(store: Store) -> None:
    store.apply(queue("single", max=1), job("gone", queue="single"), job("stays", queue="single"))
    store.trigger("gone")
    node = store.node("a")
    (held,) = store.claim(node, 10)
    store.apply(remove=["gone"])
    store.trigger("stays")

    none = store.claim(node, 10)
    store.finish(node, held)

    assert none == []
    assert len(store.claim(node, 10)) == 1


def test_the_cap_over_all_queues_counts_the_runs_of_each(store: Store) -> None:
    """C1."""
    store.apply(queue("narrow", max=2), job("report", queue="narrow"), job("other"))
    wait_in(store, "report", 5)
    wait_in(store, "other", 5)
    cap_everything(store, 3)
    node = store.node("a")

    first = store.claim(node, 10)
    none = store.claim(node, 10)
    for held in first:
        store.finish(node, held)

    assert (len(first), none) == (3, [])
    assert len(store.claim(node, 10)) == 3
    assert standing(store, "*").max_running == 3


def test_the_cap_over_all_queues_can_be_taken_away(store: Store) -> None:
    store.apply(job("report"))
    wait_in(store, "report", 5)
    cap_everything(store, 1)
    first = store.claim(store.node("a"), 10)

    cap_everything(store, None)

    assert (len(first), len(store.claim(store.node("a"), 10))) == (1, 4)


def test_only_the_leader_sets_the_cap(store: Store) -> None:
    """L2."""
    old = store.term
    store.clock.turn(TTL_US / SECOND_US)
    store.lead("leader-b")

    with pytest.raises(NotLeaderError):
        store.database.tx(lambda tx: places.set_cap(tx, Term(old.number, old.owner), 3))


def test_a_smaller_cap_ends_no_run_and_starts_none_before_enough_have_ended(store: Store) -> None:
    store.apply(queue("narrow", max=4), job("report", queue="narrow"))
    wait_in(store, "report", 20)
    node = store.node("a")
    held = store.claim(node, 10)

    store.apply(queue("narrow", max=2))
    seen = []
    for each in held:
        seen.append((standing(store, "narrow").running, len(store.claim(node, 10))))
        store.finish(node, each)

    assert len(held) == 4
    assert seen == [(4, 0), (3, 0), (2, 0), (1, 1)]
    assert standing(store, "narrow").running <= 2


def test_a_larger_cap_lets_more_runs_in_at_once(store: Store) -> None:
    store.apply(queue("narrow", max=1), job("report", queue="narrow"))
    wait_in(store, "report", 9)
    first = store.claim(store.node("a"), 10)

    store.apply(queue("narrow", max=3))

    assert (len(first), len(store.claim(store.node("a"), 10))) == (1, 2)


def test_runs_that_were_claimed_before_a_cap_began_count(store: Store) -> None:
    store.apply(job("report", queue="wide"))
    wait_in(store, "report", 9)
    node = store.node("a")
    held = store.claim(node, 3)

    store.apply(queue("wide", max=2))
    claimed = []
    for each in held:
        claimed.append(len(store.claim(node, 10)))
        store.finish(node, each)

    assert claimed == [0, 0, 1]


def test_a_claim_that_was_under_way_when_its_cap_began_is_counted_by_the_next_reaping(store: Store) -> None:
    store.apply(queue("narrow", max=2), job("report", queue="narrow"))
    wait_in(store, "report", 9)
    node = store.node("a")
    (held,) = store.claim(node)
    with store.database.engine.begin() as connection:
        connection.execute(update(runs_table).where(runs_table.c.id == held.run_id).values(queue_place_id=None))

    first, second = store.reap(), store.reap()

    assert (first.counted, second.counted) == (1, 0)
    assert len(store.claim(node, 10)) == 1


def test_a_queue_that_is_declared_no_more_has_no_cap(store: Store) -> None:
    store.apply(queue("narrow", max=1), job("report", queue="narrow"))
    wait_in(store, "report", 3)
    first = store.claim(store.node("a"), 10)

    store.apply(remove_queues=["narrow"])

    assert (len(first), len(store.claim(store.node("a"), 10))) == (1, 2)


def test_nothing_of_a_suspended_queue_is_claimed(store: Store) -> None:
    store.apply(queue("closed", suspend=True), job("report", queue="closed"), job("other"))
    wait_in(store, "report", 3)
    other = store.trigger("other")

    claimed = store.claim(store.node("a"), 10)
    store.apply(queue("closed"))

    assert [each.run_id for each in claimed] == [other]
    assert len(store.claim(store.node("a"), 10)) == 3


def test_the_queue_that_needs_no_declaration_can_be_declared(store: Store) -> None:
    store.apply(queue("default", max=1), job("report"))
    wait_in(store, "report", 3)

    assert len(store.claim(store.node("a"), 10)) == 1


def test_urgent_runs_of_a_capped_queue_come_before_others_and_others_before_patient_ones(store: Store) -> None:
    store.apply(queue("narrow", max=2), job("urgent", queue="narrow", priority=9), job("other", priority=5))
    urgent, other = wait_in(store, "urgent", 3), wait_in(store, "other", 3)

    claimed = [each.run_id for each in store.claim(store.node("a"), 4)]

    assert claimed == [urgent[0], urgent[1], other[0], other[1]]


def test_a_worker_that_serves_some_queues_is_held_by_their_caps_only(store: Store) -> None:
    store.apply(queue("narrow", max=1), queue("other", max=1), job("report", queue="narrow"), job("x", queue="other"))
    wait_in(store, "report", 3)
    wait_in(store, "x", 3)

    claimed = store.claim(store.node("a"), 10, queues=["other"])

    assert [store.run(each.run_id).definition for each in claimed] == ["x"]


def test_the_database_lets_no_two_runs_hold_one_place(store: Store) -> None:
    """C1."""
    store.apply(queue("narrow", max=2), job("report", queue="narrow"))
    wait_in(store, "report", 2)
    store.claim(store.node("a"), 2)
    a_place = select(places_table.c.id).limit(1).scalar_subquery()

    with pytest.raises(IntegrityError, match=r"(?i)unique"), store.database.engine.begin() as connection:
        connection.execute(update(runs_table).values(queue_place_id=a_place))


def test_a_new_aging_applies_to_runs_that_begin_to_wait_after_it(store: Store) -> None:
    """A run of priority 0 overtakes one of priority 9 that came nine levels later."""
    store.apply(queue("patient", agingPerLevel="10s"), job("low", queue="patient", priority=0))
    store.apply(job("high", queue="patient", priority=9))
    old = store.trigger("low")
    store.clock.turn(91)
    new = store.trigger("high")
    before = [each.run_id for each in store.claim(store.node("a"), 1)]

    store.apply(queue("patient", agingPerLevel="60s"))
    low = store.trigger("low")
    store.clock.turn(91)
    high = store.trigger("high")
    claimed = [each.run_id for each in store.claim(store.node("b"), 3)]

    assert before == [old]
    assert claimed == [new, high, low]


def test_a_run_says_which_cap_it_waits_for(store: Store) -> None:
    store.apply(queue("narrow", max=1), queue("closed", suspend=True), job("report", queue="narrow"), job("other"))
    wait_in(store, "report", 2)
    store.claim(store.node("a"), 10)
    cap_everything(store, 1)

    states = store.database.read(queue_views.listed)

    assert queue_views.why_closed(states, "narrow") == "waits for a place in queue 'narrow' (max 1)"
    assert queue_views.why_closed(states, "closed") == "queue 'closed' is suspended"
    assert queue_views.why_closed(states, "default") == (
        "waits for a place: over all queues at most 1 run may be running (limits.maxRunning)"
    )


def test_a_place_that_was_free_when_the_look_began_and_is_taken_by_now_is_not_given(postgres_store: Store) -> None:
    """C1: a statement sees the store as it was when it began, and is granted a lock that was let go meanwhile."""
    store = postgres_store
    store.apply(queue("single", max=1), job("report", queue="single"))
    run_id = store.trigger("report")
    node_id = store.node("early").node_id

    def look(tx: Tx) -> dict[str, list[int]]:
        return places.free(Interrupted(tx, take), [places.Limit("single", 1, suspended=False, overhang=0)], 1)  # type: ignore[arg-type] # a Tx in all but name

    def take() -> None:
        held = {"state": RunState.RUNNING, "node_id": node_id, "fence": 1, "attempt": 1}
        place = select(places_table.c.id).scalar_subquery()
        with store.database.engine.begin() as connection:
            connection.execute(update(runs_table).where(runs_table.c.id == run_id).values(queue_place_id=place, **held))

    assert store.database.tx(look) == {"single": []}


class Interrupted:
    """A transaction in which something happens elsewhere after the first statement."""

    def __init__(self, tx: Tx, happen: Callable[[], None]) -> None:
        self._tx = tx
        self._happen = [happen]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def run(self, build: Any, **values: Any) -> Any:
        found = self._tx.run(build, **values).freeze()()
        while self._happen:
            self._happen.pop()()
        return found
