"""Health says whether a process is alive, whether it can do its work, and what it last did."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from reconciler.engine.leader import TermBegun, TermResigned
from reconciler.engine.loop import DutyDone, DutyFailed
from reconciler.metrics.health import Health
from reconciler.reconcile.apply import PassRefused
from reconciler.reconcile.loop import SourceRead
from reconciler.store.database import Database
from reconciler.telemetry import emit, subscribe
from tests.store.cast import Store, job
from tests.turned import TurnedClock


@pytest.fixture
def health(store: Store) -> Iterator[Health]:
    health = Health(store.database, store.clock)
    stop = subscribe(health.hear)
    yield health
    stop()


def ask(health: Health, path: str) -> tuple[HTTPStatus, dict[str, Any]]:
    answer = health.routes()[path]()
    return answer.status, json.loads(answer.body)


def test_a_process_whose_store_is_missing_is_alive_and_not_ready(tmp_path: Path) -> None:
    health = Health(Database.open(f"sqlite:///{tmp_path}/none.db"), TurnedClock())

    assert ask(health, "/health/live")[0] == HTTPStatus.OK
    status, ready = ask(health, "/health/ready")
    assert (status, ready["status"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "not ready")
    assert ask(health, "/health")[0] == HTTPStatus.SERVICE_UNAVAILABLE


def test_a_process_is_ready_once_a_source_was_applied_leader_or_not(store: Store, health: Health) -> None:
    before, _ = ask(health, "/health/ready")
    store.apply(job("report"))

    assert before == HTTPStatus.SERVICE_UNAVAILABLE
    assert ask(health, "/health/ready") == (
        HTTPStatus.OK,
        {"status": "ready", "checks": {"store": "ok", "definitions": "ok"}},
    )


def test_health_tells_the_leader_the_last_looks_and_the_last_error(store: Store, health: Health) -> None:
    store.apply(job("report"))
    emit(TermBegun("host/1", 1))
    emit(DutyDone("materialise", 0.1))
    store.clock.turn(5)
    emit(SourceRead("default", in_sync=True))
    emit(DutyFailed("reap", "it broke"))

    status, told = ask(health, "/health")

    assert status == HTTPStatus.OK
    assert told["leader"] == "leader-a"
    assert (told["is_running"], told["is_leader"], told["loaded_definitions"]) == (True, True, 1)
    assert told["last_schedule_check_at"] == "2026-01-01T00:00:00Z"
    assert told["last_definitions_refresh_at"] == "2026-01-01T00:00:05Z"
    assert told["last_error"] == "2026-01-01T00:00:05Z it broke"


def test_health_knows_no_leader_when_its_term_ran_out(store: Store, health: Health) -> None:
    store.apply(job("report"))
    emit(TermBegun("host/1", 1))
    emit(TermResigned("host/1", 1))
    store.clock.turn(60)

    told = ask(health, "/health")[1]

    assert (told["leader"], told["is_leader"]) == (None, False)


def test_a_pass_that_was_refused_is_the_last_error(store: Store, health: Health) -> None:
    store.apply(job("report"))
    emit(PassRefused("default", "Refused", 0, "jobs.d cannot be read"))

    told = ask(health, "/health")[1]

    assert told["last_error"] == "2026-01-01T00:00:00Z source default: Refused, jobs.d cannot be read"
