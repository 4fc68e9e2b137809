"""A hint shortens the wait for what became claimable, on both databases; nothing depends on it."""

from collections.abc import Iterator

import pytest

from reconciler.store import runs
from reconciler.store.database import Database
from reconciler.store.hints import Hints
from reconciler.worker.hinting import Hinting
from tests.store.cast import Store, job
from tests.worker.waiting import until

LONG_SECONDS = 20.0


@pytest.fixture
def hints(store: Store) -> Iterator[Hints]:
    store.apply(job("report"))
    hints = store.database.hints()
    hints.wait(0.05)  # what happened before is no news
    yield hints
    hints.close()


def make_run(store: Store) -> None:
    """As another process does it: on connections of its own."""
    other = Database.open(store.database.url.render_as_string(hide_password=False), clock=store.clock)
    other.tx(lambda tx: runs.create(tx, "report", actor="tests"))
    other.hint()
    other.close()


def test_a_run_that_became_claimable_ends_the_wait(store: Store, hints: Hints) -> None:
    make_run(store)

    assert hints.wait(LONG_SECONDS)


def test_a_wait_without_news_ends_by_itself(hints: Hints) -> None:
    assert not hints.wait(0.05)


def test_who_listens_later_hears_of_what_came_meanwhile(store: Store, hints: Hints) -> None:
    """Between an empty claim and the next wait nothing is missed."""
    make_run(store)
    make_run(store)

    assert hints.wait(LONG_SECONDS)


def test_an_idle_worker_is_woken_once_for_each_time_it_listens(store: Store, hints: Hints) -> None:
    woken: list[bool] = []
    hinting = Hinting(store.database, wake=lambda: woken.append(True))
    hinting.listen()
    make_run(store)
    until(lambda: woken)

    assert hinting.take()
    assert not hinting.take()
    hinting.close()


def test_a_store_that_cannot_be_heard_ends_nothing(store: Store) -> None:
    """Polling goes on; the thread tries again later, and can be stopped meanwhile."""
    tried: list[bool] = []

    class Deaf:
        def hints(self) -> Hints:
            tried.append(True)
            raise OSError("nobody there")

    hinting = Hinting(Deaf(), wake=lambda: None)  # type: ignore[arg-type]
    hinting.listen()
    until(lambda: tried)

    assert not hinting.take()
    hinting.close()
