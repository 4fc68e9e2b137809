"""The store did it and the worker never heard: what was written is read back, never guessed, and nothing is lost."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reconciler.errors import SessionLostError, StoreUnavailableError
from reconciler.model.run import AttemptOutcome, RunState
from reconciler.store import claiming, claims
from reconciler.store.database import Tx
from reconciler.worker.events import FencedOut, RunStarted, SessionLost, SessionOpened, StoreFailed, StrayFound
from tests.lost import Losing, lose_first_answer, losing
from tests.postgres import conninfo_of
from tests.proxy import proxied
from tests.store.cast import job
from tests.worker.cast import FAST, Stage, command, staged

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def way(store_url: str) -> Iterator[Losing]:
    with losing(store_url) as way:
        yield way


@pytest.fixture
def stage(store_url: str, way: Losing, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path, worker_url=way.url) as stage:
        yield stage


def effects(tmp_path: Path) -> Any:
    return command("effect", "sh", "-c", f"echo line >> {tmp_path}/effects")


def test_a_run_whose_claim_was_not_answered_is_handed_back_and_runs_once(
    stage: Stage, way: Losing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R2: nobody here knows of it, and nobody else may touch it while the session lives."""
    lost = lose_first_answer(monkeypatch, way, claiming, "claim")

    run = stage.run(effects(tmp_path))

    assert [[claim.run_id for claim in granted] for granted in lost] == [[run.id]]
    assert stage.outcomes(run.id) == [AttemptOutcome.HANDED_BACK, AttemptOutcome.SUCCEEDED]
    assert stage.attempts(run.id)[0].error == "the answer to its claim was lost; it never started"
    assert (run.state, run.attempt, run.fence, run.lost_leases) == ("Succeeded", 1, 2, 0)
    assert [event.step for event in stage.told(StoreFailed)] == ["claim"]
    assert [(event.run_id, event.fence) for event in stage.told(StrayFound)] == [(run.id, 1)]
    assert (tmp_path / "effects").read_text() == "line\n"


def test_a_run_that_turns_up_late_is_found_too(stage: Stage) -> None:
    """A COMMIT that was under way may arrive after the first look: there is another every third of a lease."""
    stage.turn_until(lambda: stage.told(SessionOpened))
    stage.store.apply(job("elsewhere"))
    run = stage.store.trigger("elsewhere")
    session = stage.worker._membership.session  # noqa: SLF001 - only the session itself may claim
    assert session
    stage.store.database.tx(lambda tx: claiming.claim(tx, session, limit=1, handlers=["slow"], queues=["default"]))

    stage.turn_until(lambda: not stage.is_running(run) or stage.told(RunStarted), seconds=FAST.lease_seconds / 3 + 2)

    assert stage.outcomes(run)[:1] == [AttemptOutcome.HANDED_BACK]
    assert [(event.run_id, event.fence) for event in stage.told(StrayFound)] == [(run, 1)]


def test_a_result_that_was_written_and_not_answered_stands_and_is_not_told_as_refused(
    stage: Stage, way: Losing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R4."""
    lost = lose_first_answer(monkeypatch, way, claims, "finish")

    run = stage.run(effects(tmp_path))
    stage.turn_until(lambda: stage.worker._flusher.is_idle)  # noqa: SLF001 - the second report

    assert lost == [{run.id: RunState.SUCCEEDED}]
    assert stage.outcomes(run.id) == [AttemptOutcome.SUCCEEDED]
    assert [event.step for event in stage.told(StoreFailed)] == ["finish"]
    assert stage.told(FencedOut) == []
    assert stage.told(SessionLost) == []
    assert (tmp_path / "effects").read_text() == "line\n"


def test_a_result_that_was_written_before_its_session_ended_is_not_told_as_refused(
    stage: Stage, way: Losing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R4: the second report comes too late, the first one did not."""
    lose_first_answer(monkeypatch, way, claims, "finish", then=SessionLostError("over"))

    run = stage.run(effects(tmp_path))
    stage.turn_until(lambda: len(stage.told(SessionOpened)) == 2)

    assert stage.outcomes(run.id) == [AttemptOutcome.SUCCEEDED]
    assert stage.told(FencedOut) == []


def test_a_run_whose_result_is_not_yet_written_is_no_stray(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store takes claims and no results for longer than the worker waits between two looks."""
    finish: Callable[[Tx, Any, Sequence[Any]], dict[int, RunState]] = claims.finish

    def away(_tx: Tx, _session: Any, _outcomes: Sequence[Any]) -> dict[int, RunState]:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(claims, "finish", away)
        stage.store.apply(effects(tmp_path))
        run = stage.store.trigger("effect")
        stage.turn_for(FAST.lease_seconds / 3 + 1)
    assert claims.finish is finish
    stage.turn_until(lambda: stage.store.run(run).is_over)

    assert stage.outcomes(run) == [AttemptOutcome.SUCCEEDED]
    assert stage.told(StrayFound) == []


class TestPostgresql:
    def test_a_network_that_swallows_everything_for_a_while_costs_no_run(
        self, postgres_url: str, tmp_path: Path
    ) -> None:
        with ExitStack() as stack:
            proxy = stack.enter_context(proxied(postgres_url))
            stage = stack.enter_context(staged(postgres_url, tmp_path, worker_url=proxy.url))
            stage.store.apply(command("job", "sleep", "3"))
            run = stage.store.trigger("job")
            stage.turn_until(lambda: stage.told(RunStarted))
            proxy.swallow()
            back = threading.Timer(1.5, proxy.restore)
            back.start()
            stage.turn_until(lambda: stage.store.run(run).is_over)
            back.join()
            later = stage.run(command("later", "true"))

            assert stage.outcomes(run) == [AttemptOutcome.SUCCEEDED]
            assert stage.told(SessionLost) == []
            assert (later.state, later.attempt) == ("Succeeded", 1)

    def test_a_table_that_is_locked_for_longer_than_a_lease_costs_no_run(
        self, postgres_url: str, tmp_path: Path
    ) -> None:
        """No step of the loop waits for long enough to make it look dead to its guard, which renews meanwhile."""
        with staged(postgres_url, tmp_path) as stage, psycopg.connect(conninfo_of(postgres_url)) as other:
            stage.store.apply(command("job", "sleep", "5", gracePeriod="1s"))
            run = stage.store.trigger("job")
            stage.turn_until(lambda: stage.told(RunStarted))
            other.execute("LOCK TABLE runs")
            stage.turn_for(FAST.lease_seconds + 1)
            other.rollback()
            stage.turn_until(lambda: stage.store.run(run).is_over)

            assert stage.outcomes(run) == [AttemptOutcome.SUCCEEDED]
            assert stage.told(SessionLost) == []
            assert "lock timeout" in stage.told(StoreFailed)[0].error
