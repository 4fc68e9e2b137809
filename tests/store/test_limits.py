"""How long a step waits for PostgreSQL: for a lock, a statement, a server that says nothing, a connection."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from reconciler.errors import StoreUnavailableError
from reconciler.model.lease import Timings
from reconciler.store import schema, silence
from reconciler.store.database import Database, Tx, parse_url
from reconciler.store.dialect import Limits
from tests.postgres import conninfo_of
from tests.proxy import proxied
from tests.worker.waiting import until

pytestmark = pytest.mark.timeout(60)

SHORT = Limits(answer_seconds=0.6)


@contextmanager
def opened(url: str, limits: Limits = SHORT) -> Iterator[Database]:
    database = Database.open(url, limits=limits)
    try:
        yield database
    finally:
        database.close()


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    with opened(postgres_url) as database:
        database.tx(lambda tx: tx.execute(text("CREATE TABLE held (n INTEGER)")))
        yield database


def add(tx: Tx) -> None:
    tx.execute(text("INSERT INTO held VALUES (1)"))


def count(database: Database) -> Any:
    return database.read(lambda tx: tx.execute(text("SELECT count(*) FROM held")).scalar_one())


class TestServer:
    def test_a_lock_that_others_hold_too_long_is_not_waited_for(self, database: Database, postgres_url: str) -> None:
        with psycopg.connect(conninfo_of(postgres_url)) as other:
            other.execute("LOCK TABLE held")
            with pytest.raises(StoreUnavailableError, match=r"the store \S+ did not answer in time: .* lock timeout$"):
                database.tx(add)

        database.tx(add)
        assert count(database) == 1

    def test_a_statement_that_takes_too_long_is_cancelled(self, database: Database) -> None:
        def slow(tx: Tx) -> None:
            add(tx)
            tx.execute(text("SELECT pg_sleep(20)"))

        with pytest.raises(StoreUnavailableError, match=r"did not answer in time: .* statement timeout$"):
            database.tx(slow)

        assert count(database) == 0

    def test_a_migration_is_never_cut_off(self, postgres_url: str) -> None:
        """It waits for a lock, and works on, for longer than anything else may."""
        with opened(postgres_url, Limits(answer_seconds=0.2, stall_seconds=0.2)) as database:
            schema.upgrade(database)
            with psycopg.connect(conninfo_of(postgres_url)) as other:
                other.execute("LOCK TABLE alembic_version")
                upgrade = threading.Thread(target=lambda: done.append(schema.upgrade(database)))
                done: list[object] = []
                upgrade.start()
                upgrade.join(0.8)
                assert upgrade.is_alive(), "it waits"
            upgrade.join(20)

            assert done == [(schema.head(), schema.head())]
            limits = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]
            unhurried = database.unhurried()
            shown = [unhurried.read(lambda tx, name=name: tx.execute(text(f"SHOW {name}")).scalar()) for name in limits]  # type: ignore[misc]
            unhurried.close()
            assert shown == ["0", "0", "0"]

    def test_options_of_the_url_are_taken_and_ours_stay(self, postgres_url: str) -> None:
        with opened(f"{postgres_url}?options=-c%20work_mem%3D5MB%20-c%20statement_timeout%3D0") as database:

            def shown(tx: Tx) -> list[str]:
                return [tx.execute(text(f"SHOW {name}")).scalar_one() for name in ("work_mem", "statement_timeout")]

            assert database.read(shown) == ["5MB", "600ms"]

    @pytest.mark.parametrize(("lease", "answer"), [(4, 5), (30, 10), (300, 30)])
    def test_a_node_waits_a_third_of_its_lease(self, lease: float, answer: float) -> None:
        assert Timings(lease_seconds=lease, heartbeat_seconds=lease / 4).answer_seconds == answer


class TestSilence:
    def test_a_server_that_takes_what_is_sent_and_never_answers_is_given_up(
        self, database: Database, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its kernel acknowledges every packet, so neither keep-alives nor the server's own limits help."""
        monkeypatch.setattr(silence, "_AFTER_THE_SERVER_SECONDS", 0.1)
        with proxied(postgres_url) as proxy, opened(proxy.url) as far:

            def step(tx: Tx) -> None:
                add(tx)
                proxy.swallow()
                add(tx)

            with pytest.raises(StoreUnavailableError, match=r"cannot be used: the server said nothing for 0\.7 s$"):
                far.tx(step)
            proxy.restore()
            far.tx(add)

        until(lambda: count(database) == 1)

    def test_a_pooled_connection_to_a_server_that_says_nothing_any_more_is_given_up(
        self, database: Database, postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(silence, "_AFTER_THE_SERVER_SECONDS", 0.1)
        with proxied(postgres_url) as proxy, opened(f"{proxy.url}?connect_timeout=2") as far:
            far.tx(add)
            proxy.swallow()
            with pytest.raises(StoreUnavailableError, match="timeout expired"):
                far.tx(add)
            proxy.restore()
            far.tx(add)

        assert count(database) == 2

    def test_a_slow_network_is_no_silence(self, database: Database, postgres_url: str) -> None:
        with proxied(postgres_url) as proxy, opened(proxy.url) as far:
            proxy.delay_seconds = 0.1
            far.tx(add)

        assert count(database) == 1

    def test_a_server_that_does_not_even_greet_is_given_up(self, postgres_url: str) -> None:
        with proxied(postgres_url) as proxy, opened(f"{proxy.url}?connect_timeout=2") as far:
            proxy.swallow()
            with pytest.raises(StoreUnavailableError, match="timeout"):
                far.tx(lambda tx: tx.now_us())
            proxy.restore()

            assert far.tx(lambda tx: tx.now_us())


class TestConnections:
    def test_a_connection_that_is_reset_inside_a_step_undoes_it_and_the_next_step_works(
        self, database: Database, postgres_url: str
    ) -> None:
        with proxied(postgres_url) as proxy, opened(proxy.url) as far:

            def step(tx: Tx) -> None:
                add(tx)
                proxy.reset()
                add(tx)

            with pytest.raises(StoreUnavailableError, match="cannot be used"):
                far.tx(step)
            far.tx(add)

        until(lambda: count(database) == 1)

    def test_all_pooled_connections_that_went_stale_are_replaced_in_silence(
        self, database: Database, postgres_url: str
    ) -> None:
        together = threading.Barrier(4)

        def meet(tx: Tx) -> None:
            add(tx)
            together.wait(20)

        with proxied(postgres_url) as proxy, opened(proxy.url) as far:
            for _ in range(2):
                threads = [threading.Thread(target=far.tx, args=(meet,)) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(20)
                proxy.reset()

        assert count(database) == 8

    def test_a_server_that_takes_no_writes_is_left(self, database: Database) -> None:
        """After a failover: what was the primary is a standby, and its connections are of no use any more."""

        def demote(tx: Tx) -> None:
            tx.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))

        database.tx(demote)
        with pytest.raises(StoreUnavailableError, match="cannot execute INSERT in a read-only transaction"):
            database.tx(add)
        database.tx(add)

        assert count(database) == 1

    def test_a_standby_is_no_store(self, database: Database, postgres_url: str) -> None:
        name = database.url.database
        database.tx(lambda tx: tx.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on")))

        with opened(postgres_url) as late, pytest.raises(StoreUnavailableError, match="session is read-only"):
            late.read(lambda tx: tx.now_us())

    def test_of_several_hosts_the_one_that_takes_writes_is_used(self, postgres_url: str) -> None:
        url = parse_url(postgres_url)
        hosts = (f"127.0.0.1:{port}" for port in (1, url.port))  # nobody listens on port 1
        several = url.set(host=None, port=None).update_query_dict({"host": tuple(hosts)})

        with opened(several.render_as_string(hide_password=False)) as database:
            assert database.read(lambda tx: tx.now_us())

    def test_a_pool_that_is_used_up_is_told_in_words(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(database.engine.pool, "_timeout", 0.1)
        taken = [database.engine.connect() for _ in range(12)]

        with pytest.raises(StoreUnavailableError, match=r"every connection to the store \S+ is in use"):
            database.tx(add)

        for connection in taken:
            connection.close()
