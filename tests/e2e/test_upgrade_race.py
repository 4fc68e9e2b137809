"""Several processes bring one empty store up to date at the same moment, as the replicas of a new installation do."""

from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from reconciler.store import schema
from reconciler.store.database import Database
from tests.e2e.crowd import SPAWN, Crowd

SECONDS = 40.0
PROCESSES = 4

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS + 5)]


def test_upgrades_at_the_same_moment_all_end_well(store_url: str, tmp_path: Path) -> None:
    gate = SPAWN.Barrier(PROCESSES)

    with Crowd(tmp_path, seconds=SECONDS) as crowd:
        for number in range(PROCESSES):
            crowd.start(f"replica-{number}", upgrade_at_once, store_url, gate)
        crowd.await_end()


def upgrade_at_once(store_url: str, gate: Barrier) -> None:
    database = Database.open(store_url)
    gate.wait(SECONDS)
    _before, after = schema.upgrade(database)
    schema.check(database)
    database.close()
    assert after == schema.head()
