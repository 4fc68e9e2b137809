"""The gauges tell what the store holds, on both databases; a scrape costs the store little, and its absence little."""

from pathlib import Path

import pytest
from prometheus_client import generate_latest
from sqlalchemy import event

from reconciler.clock import SECOND_US
from reconciler.errors import StoreUnavailableError
from reconciler.metrics.exposition import Exposition
from reconciler.metrics.gauges import StoreGauges
from reconciler.model.run import AttemptOutcome
from reconciler.store import places
from reconciler.store.database import Database
from tests.metrics.scrape import value
from tests.store.cast import Store, job, queue
from tests.turned import START_US, TurnedClock


def scraped(store: Store) -> str:
    exposition = Exposition()
    StoreGauges(store.database, store.clock, on_time_seconds=20.0).register(exposition.registry)
    return generate_latest(exposition.registry).decode()


def test_queues_show_how_much_waits_and_how_long_the_oldest_has(store: Store) -> None:
    store.apply(job("report", queue="reports"), job("sweep"))
    for name in ("report", "report", "sweep"):
        store.trigger(name)
    store.clock.turn(90)
    store.claim(store.node("a"), 1, queues=["reports"])

    shown = scraped(store)

    assert value(shown, "queue_depth", queue="reports", state="Pending") == 1
    assert value(shown, "queue_depth", queue="reports", state="Running") == 1
    assert value(shown, "queue_depth", queue="default", state="Pending") == 1
    assert value(shown, "queue_oldest_age_seconds", queue="default") == pytest.approx(90)
    assert value(shown, "worker_slots", state="busy") == 1
    assert value(shown, "worker_slots", state="free") == 3
    assert value(shown, "workers", state="Active") == 1


def test_a_capped_queue_shows_its_places_and_all_of_them_together_as_a_star(store: Store) -> None:
    store.apply(queue("reports", max=2), job("report", queue="reports"), job("sweep"))
    store.database.tx(lambda tx: places.set_cap(tx, store.term, 5))
    for name in ("report", "report", "report", "sweep"):
        store.trigger(name)
    store.claim(store.node("a"), 4)

    shown = scraped(store)

    assert value(shown, "queue_slots", queue="reports", state="busy") == 2
    assert value(shown, "queue_slots", queue="reports", state="free") == 0
    assert value(shown, "queue_slots", queue="*", state="busy") == 3
    assert value(shown, "queue_slots", queue="*", state="free") == 2
    assert value(shown, "queue_slots", queue="default", state="busy") is None


def test_the_leader_and_its_lease_are_told_by_the_store(store: Store) -> None:
    shown = scraped(store)
    store.clock.turn(60)

    assert value(shown, "leader_term") == store.term.number
    assert value(shown, "leader_alive") == 1
    assert value(shown, "leader_lease_expiry_timestamp_seconds") == START_US / SECOND_US + 15
    assert value(scraped(store), "leader_alive") == 0


def test_definitions_show_their_state_next_fire_and_last_success(store: Store) -> None:
    store.apply(job("pulse", every="1h"), job("resting", every="1h", suspend=True), job("by-hand"))
    store.trigger("by-hand")
    node = store.node("a")
    store.clock.turn(10)
    (held,) = store.claim(node)
    store.finish(node, held, AttemptOutcome.SUCCEEDED)

    shown = scraped(store)

    assert value(shown, "definitions", kind="Job", state="Active") == 2
    assert value(shown, "definitions", kind="Job", state="Suspended") == 1
    assert value(shown, "definition_info", definition="pulse", kind="Job", queue="default", source="default") == 1
    fires = value(shown, "definition_next_fire_timestamp_seconds", definition="pulse")
    assert fires == START_US / SECOND_US + 3600
    assert value(shown, "definition_next_fire_timestamp_seconds", definition="by-hand") is None
    succeeded = value(shown, "definition_last_success_timestamp_seconds", definition="by-hand")
    assert succeeded == START_US / SECOND_US + 10
    assert value(shown, "definition_last_success_timestamp_seconds", definition="pulse") is None


def test_a_slot_that_nobody_turned_into_a_run_makes_its_definition_overdue(store: Store) -> None:
    store.apply(job("pulse", every="1m"))
    store.clock.turn(60 + 19)
    in_time = scraped(store)
    store.clock.turn(2)

    assert value(in_time, "definition_overdue", definition="pulse") == 0
    assert value(scraped(store), "definition_overdue", definition="pulse") == 1


def test_dead_letters_and_sources_are_told(store: Store) -> None:
    store.apply(job("doomed", retry={"maxAttempts": 2, "initial": "1s"}))
    store.trigger("doomed")
    node = store.node("a")
    for _ in range(2):
        (held,) = store.claim(node)
        store.finish(node, held, AttemptOutcome.FAILED)
        store.clock.turn(15)
        store.promote()

    shown = scraped(store)

    assert value(shown, "dead_letters") == 1
    assert value(shown, "source_revision_info", source="default", revision="r1") == 1
    assert value(shown, "source_errors", source="default") == 0
    assert value(shown, "deletions_held", source="default") == 0


def test_scrapes_within_five_seconds_read_the_store_once(store: Store) -> None:
    exposition = Exposition()
    StoreGauges(store.database, store.clock, on_time_seconds=20.0).register(exposition.registry)
    statements: list[str] = []
    event.listen(store.database.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    reader = store.database._reader  # noqa: SLF001 - what is read is what is counted
    event.listen(reader, "before_cursor_execute", lambda *given: statements.append(given[2]))

    def scrape() -> int:
        statements.clear()
        generate_latest(exposition.registry)
        return len(statements)

    first, second = scrape(), scrape()
    store.clock.turn(5)

    assert first > 0
    assert second == 0
    assert scrape() == first


def test_a_store_that_is_away_costs_its_gauges_and_nothing_else(tmp_path: Path) -> None:
    class Away(Database):
        def read(self, _fn: object) -> object:  # type: ignore[override]
            raise StoreUnavailableError("away")

    exposition = Exposition()
    StoreGauges(Away.open(f"sqlite:///{tmp_path}/none.db"), TurnedClock(), on_time_seconds=20.0).register(
        exposition.registry
    )

    shown = generate_latest(exposition.registry).decode()

    assert value(shown, "store_up") == 0
    assert value(shown, "leader_term") is None
