"""A request for a run that was done and not answered (R6): who repeats it under its key makes one run."""

from collections.abc import Iterator

import pytest

from reconciler.errors import StoreUnavailableError
from reconciler.store import runs, schema
from reconciler.store.database import Database
from tests.lost import Losing, lose_first_answer, losing
from tests.store.cast import Store, job
from tests.traps import both_ways
from tests.turned import TurnedClock

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def way(store_url: str) -> Iterator[Losing]:
    with losing(store_url) as way:
        yield way


@pytest.fixture
def far(way: Losing, clock: TurnedClock) -> Iterator[Store]:
    """A store by the way that loses answers."""
    database = Database.open(way.url, clock=clock, turned=True)
    schema.upgrade(database)
    yield Store(database, clock)
    database.close()


@both_ways
def test_a_request_that_is_repeated_since_it_was_not_answered_makes_one_run(
    far: Store, way: Losing, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    """Trap: "5 immediate database restarts: of 242 errors 2 had committed"; here it is the one that had.

    Mend: `runs.create` gives the run that its idempotency key made before (`runs._of_key`).
    """
    key = "order-7" if is_mended else None
    far.apply(job("report"))
    lost = lose_first_answer(monkeypatch, way, runs, "create")
    with pytest.raises(StoreUnavailableError):
        far.trigger("report", idempotency_key=key)

    repeated = far.trigger("report", idempotency_key=key)

    assert [run.id for run in far.runs("report")] == [repeated]
    assert lost == [(repeated, True)]
