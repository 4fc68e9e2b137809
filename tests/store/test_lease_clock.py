"""Leases and the clocks of the machine: a step of the wall clock, and a reboot."""

import pytest

from reconciler.store import boot, leader, nodes
from reconciler.store.sqlite import Sqlite
from tests.store.cast import LEASE_US, Store, job


@pytest.mark.parametrize("step_seconds", [86_400, -86_400])
def test_a_step_of_the_wall_clock_neither_ends_nor_prolongs_a_lease(sqlite_store: Store, step_seconds: int) -> None:
    """S3, I4: on SQLite leases run on elapsed time. PostgreSQL has a clock of its own, the server's."""
    sqlite_store.apply(job("report"))
    sqlite_store.trigger("report")
    node = sqlite_store.node("a")
    (claim,) = sqlite_store.claim(node)

    sqlite_store.clock.at_us += step_seconds * 1_000_000

    assert sqlite_store.reap().put_back == []
    assert sqlite_store.lead("leader-b") is None
    assert sqlite_store.database.tx(lambda tx: nodes.renew(tx, node, lease_us=LEASE_US))
    sqlite_store.clock.elapsed_seconds += 29
    assert sqlite_store.finish(node, claim)


def test_a_lease_of_another_boot_is_over(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reboot the lease clock begins at zero: what was granted before must not seem to hold for days."""
    sqlite_store.apply(job("report"))
    run_id = sqlite_store.trigger("report")
    sqlite_store.claim(sqlite_store.node("a"))
    monkeypatch.setattr(Sqlite, "boot_id", lambda _self: "another-boot")
    sqlite_store.clock.elapsed_seconds = 5.0

    boot.adopt(sqlite_store.database)

    assert sqlite_store.lead("leader-b") is not None
    assert list(sqlite_store.reap().put_back) == [run_id]


def test_adopting_the_same_boot_again_ends_nothing(store: Store) -> None:
    store.apply(job("report"))
    store.trigger("report")
    node = store.node("a")
    (claim,) = store.claim(node)

    boot.adopt(store.database)

    assert store.finish(node, claim)
    assert store.database.read(leader.current).alive


def test_people_see_leases_in_wall_time(store: Store) -> None:
    store.node("a")

    (node,) = store.database.read(lambda tx: nodes.listed(tx, limit=10))

    assert node.lease_until_us == store.clock.now_us() + LEASE_US
    assert store.database.read(leader.current).expires_us == store.clock.now_us() + 15_000_000
