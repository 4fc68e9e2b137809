"""L3: a leader that is killed while the database works for it holds up the next one no longer than any other."""

import subprocess
import sys
import time

import pytest
from sqlalchemy import text

from reconciler.clock import SECOND_US
from reconciler.store import leader, schema
from reconciler.store.database import Database
from tests.worker.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

TTL_SECONDS = 3.0
IS_WORKING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
BUSY_LEADER = """
import sys
from sqlalchemy import text
from reconciler.model.lease import Timings
from reconciler.store import leader
from reconciler.store.database import Database
from reconciler.store.dialect import Limits

timings = Timings(leader_ttl_seconds=3.0)
database = Database.open(sys.argv[1], limits=Limits(stall_seconds=timings.stall_seconds))
term = database.tx(lambda tx: leader.acquire(tx, "busy", ttl_us=3_000_000))

def work(tx):
    leader.guard(tx, term)
    tx.execute(text("SELECT pg_sleep(25)"))

database.tx(work)
"""


def test_a_leader_killed_while_its_statement_runs_is_followed_in_time(postgres_url: str) -> None:
    database = Database.open(postgres_url)
    schema.upgrade(database)
    busy = subprocess.Popen([sys.executable, "-c", BUSY_LEADER, postgres_url])
    until(lambda: database.read(lambda tx: tx.execute(text(IS_WORKING)).scalar_one()), seconds=20)

    busy.kill()
    killed_at = time.monotonic()
    busy.wait(10)
    until(
        lambda: database.tx(lambda tx: leader.acquire(tx, "next", ttl_us=round(TTL_SECONDS * SECOND_US))),
        seconds=TTL_SECONDS + 2,
    )

    assert time.monotonic() - killed_at <= TTL_SECONDS + 2
    database.close()
