"""The leader's row (invariants L1, L2) on both databases."""

import threading

import pytest

from reconciler.errors import NotLeaderError, StoreUnavailableError
from reconciler.model.lease import Term
from reconciler.store import leader, runs, schema
from reconciler.store.database import Database, Tx
from reconciler.store.dialect import Limits
from tests.store.cast import TTL_US, Store


def test_while_one_leads_nobody_else_does(store: Store) -> None:
    assert store.lead("leader-b") is None


def test_a_new_leader_has_a_higher_term(store: Store) -> None:
    """L1."""
    first = store.term
    store.clock.turn(15)

    second = store.lead("leader-b")

    assert second == Term(first.number + 1, "leader-b")


def test_a_lead_that_ran_out_is_never_renewed(store: Store) -> None:
    store.clock.turn(15)

    assert not store.database.tx(lambda tx: leader.renew(tx, store.term, ttl_us=TTL_US))


def test_a_renewed_lead_holds(store: Store) -> None:
    for _ in range(3):
        store.clock.turn(10)
        assert store.database.tx(lambda tx: leader.renew(tx, store.term, ttl_us=TTL_US))

    assert store.lead("leader-b") is None


def test_a_leader_that_resigns_is_followed_at_once(store: Store) -> None:
    """L3."""
    store.database.tx(lambda tx: leader.release(tx, store.term))

    assert store.lead("leader-b") is not None


def test_what_an_old_leader_writes_is_refused(store: Store) -> None:
    """L2."""
    old = store.term
    store.clock.turn(15)
    store.lead("leader-b")

    with pytest.raises(NotLeaderError):
        store.database.tx(lambda tx: runs.promote(tx, old, limit=1))


@pytest.mark.timeout(30)
def test_a_takeover_waits_for_the_open_transaction_of_the_old_leader(store: Store) -> None:
    """L2: pausing between the check and the commit lets no newer term begin in between."""
    old = store.term
    guarded, may_commit, taken = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        def duty(tx: object) -> None:
            leader.guard(tx, old)  # type: ignore[arg-type] # the fixture's own Tx
            guarded.set()
            assert may_commit.wait(20)

        store.database.tx(duty)

    def take_over() -> None:
        store.database.tx(lambda tx: leader.acquire(tx, "leader-b", ttl_us=TTL_US))
        taken.set()

    worker, successor = threading.Thread(target=work), threading.Thread(target=take_over)
    worker.start()
    assert guarded.wait(20)
    store.clock.turn(15)
    successor.start()
    waited = not taken.wait(0.3)
    may_commit.set()
    worker.join(20)
    successor.join(20)

    assert waited
    assert taken.is_set()


@pytest.mark.timeout(30)
def test_a_leader_that_stalls_inside_a_transaction_does_not_hold_up_its_successor(postgres_url: str) -> None:
    """L3: PostgreSQL ends a transaction that stands still, well before the TTL is over."""
    database = Database.open(postgres_url, limits=Limits(stall_seconds=0.4))
    schema.upgrade(database)
    term = database.tx(lambda tx: leader.acquire(tx, "stalled", ttl_us=500_000))
    assert term is not None
    guarded, may_go_on, refused = threading.Event(), threading.Event(), threading.Event()

    def duty(tx: Tx) -> None:
        leader.guard(tx, term)
        guarded.set()
        may_go_on.wait(20)
        runs.promote(tx, term, limit=1)

    def stall() -> None:
        try:
            database.tx(duty)
        except StoreUnavailableError:
            refused.set()

    stalled = threading.Thread(target=stall)
    stalled.start()
    assert guarded.wait(20)
    won = None
    while won is None:
        won = database.tx(lambda tx: leader.acquire(tx, "successor", ttl_us=TTL_US))
    may_go_on.set()
    stalled.join(20)
    database.close()

    assert won.number == term.number + 1
    assert refused.is_set(), "what the stalled leader wrote afterwards was refused"
