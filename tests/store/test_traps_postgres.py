"""Traps seen on PostgreSQL 15 (and still there on 18), one test per row of the design's table."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import BigInteger, Select, bindparam, cast, func, select, text

from reconciler.clock import SECOND_US
from reconciler.errors import StoreUnavailableError
from reconciler.model.run import RunState
from reconciler.store import leader, nodes, schema
from reconciler.store.database import Database, Tx
from reconciler.store.dialect import Limits
from reconciler.store.postgresql import Postgresql
from reconciler.store.tables import leader as leader_table
from tests.store.cast import TTL_US, Store, job
from tests.traps import both_ways
from tests.turned import TurnedClock

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def store(postgres_url: str, clock: TurnedClock) -> Iterator[Store]:
    """A store of the test's own, in which no statement was built before its mend was taken away."""
    database = Database.open(postgres_url, clock=clock, turned=True, limits=Limits(answer_seconds=3))
    schema.upgrade(database)
    yield Store(database, clock)
    database.close()


def is_overtaken(store: Store) -> bool:
    """Whether a newer term can begin while a transaction of the old one has proved itself and not yet committed."""
    old, taken = store.term, threading.Event()

    def take_over() -> None:
        store.database.tx(lambda tx: leader.acquire(tx, "leader-b", ttl_us=TTL_US))
        taken.set()

    successor = threading.Thread(target=take_over)

    def duty(tx: Tx) -> bool:
        leader.guard(tx, old)
        store.clock.turn(TTL_US / SECOND_US)
        successor.start()
        return taken.wait(0.3)

    overtaken = store.database.tx(duty)
    successor.join(20)
    assert taken.is_set(), "it may begin once the old one is done"
    return overtaken


@both_ways
def test_no_newer_term_begins_between_the_check_of_a_term_and_the_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Trap: "leader write guarded by an unlocked EXISTS; takeover commits between statement and commit".

    Mend: `leader.guard` locks the row of its term (`leader._row_of_term`).
    """

    def unlocked(tx: Tx) -> Select[tuple[int]]:
        mine = (leader_table.c.term == bindparam("term"), leader_table.c.owner == bindparam("owner"))
        return select(leader_table.c.term).where(*mine)

    if not is_mended:
        monkeypatch.setattr(leader, "_row_of_term", unlocked)

    assert not is_overtaken(store)


@both_ways
def test_a_leader_can_renew_while_a_duty_of_its_own_is_open(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Trap: "FOR SHARE on the leader row: the takeover waits, but so does the leader's own renewal (lock timeout)".

    Mend: `Tx.share_key` asks for the key only (FOR KEY SHARE), and `leader.renew` changes no key.
    """
    if not is_mended:
        monkeypatch.setattr(Tx, "share_key", lambda _tx, query: query.with_for_update(read=True))

    def duty(tx: Tx) -> bool:
        leader.guard(tx, store.term)
        try:
            return store.database.tx(lambda other: leader.renew(other, store.term, ttl_us=TTL_US))
        except StoreUnavailableError:
            return False

    assert store.database.tx(duty)


@both_ways
def test_the_term_is_a_key_so_that_a_takeover_waits_for_who_holds_it(store: Store, is_mended: bool) -> None:
    """Trap: "FOR KEY SHARE without UNIQUE(term): the takeover is not stopped".

    Mend: `tables.leader` declares `term` unique.
    """
    if not is_mended:
        store.database.tx(lambda tx: tx.execute(text("ALTER TABLE leader DROP CONSTRAINT uq_leader_term")))

    assert not is_overtaken(store)


@both_ways
def test_a_lease_that_ran_out_while_a_transaction_was_open_is_not_renewed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Trap: "`now()` in a 1.2 s old transaction is 1.20 s stale (it is the transaction's start)".

    Mend: `Postgresql.now` reads `clock_timestamp()`.
    """

    def stale(_dialect: Postgresql, _clock: object) -> object:
        return cast(func.extract("epoch", func.now()) * 1_000_000, BigInteger())

    if not is_mended:
        monkeypatch.setattr(Postgresql, "now", stale)
    database = Database.open(postgres_url)
    schema.upgrade(database)
    facts = {"host": "here", "pid": 1, "secret": "s", "queues": None, "handlers": [], "tags": [], "slots": 1}
    lease_us = 300_000

    def late(tx: Tx) -> int | None:
        tx.now_us()
        session = database.tx(lambda other: nodes.register(other, "a", lease_us=lease_us, **facts))  # type: ignore[arg-type]
        tx.execute(text("SELECT pg_sleep(0.4)"))
        return nodes.renew(tx, session, lease_us=lease_us)

    renewed_until = database.tx(late)
    database.close()

    assert renewed_until is None


@both_ways
def test_a_claim_takes_no_more_than_its_limit_whatever_the_plan(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Trap: "LIMIT in a plain sub-select under UPDATE: the planner may run it twice".

    Mend: `claims._claim` (and `runs._promotion`, `nodes.bury_expired`) pin it in a CTE, which is never inlined since
    it locks rows.
    """
    if not is_mended:
        monkeypatch.setattr(Select, "cte", lambda query, name: query.subquery(name))
    _forbid_all_plans_but_the_nested_loop(store.database)
    store.apply(job("report"))
    for _ in range(10):
        store.trigger("report")

    won = store.claim(store.node("a"), 3)

    assert len(won) == 3
    assert [run.state for run in store.runs()].count(RunState.RUNNING) == 3


def _forbid_all_plans_but_the_nested_loop(database: Database) -> None:
    """It looks at the sub-select again for every row; statistics may lead the planner there any day."""
    name = database.url.database
    for way in ("hashjoin", "mergejoin", "hashagg", "sort", "material", "memoize"):
        database.tx(lambda tx, way=way: tx.execute(text(f"ALTER DATABASE {name} SET enable_{way} = off")))  # type: ignore[misc]
    database.close()
