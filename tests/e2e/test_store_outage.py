"""PostgreSQL goes away and comes back: no process ends, all go on by themselves, nothing is lost or done twice (X1)."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, Self

import pytest

from reconciler.clock import SECOND_US
from reconciler.errors import StoreUnavailableError
from reconciler.store import leader, nodes, queries, runs
from reconciler.store.database import Database, Tx
from tests.e2e.cluster import Cluster
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PROOF: Final = bool(os.environ.get("RECONCILER_PROOF"))
RECOVERY_SECONDS: Final = 15.0
RESTART_SECONDS: Final = 1.0
TTL_US: Final = 15 * SECOND_US
WORKERS: Final = ("a", "b", "c")
ONCE_THEN_SHORT: Final = """
echo "begin $RECONCILER_FENCE" >> {effects}
if mkdir {effects}.once 2>/dev/null; then sleep {seconds}; fi
echo "end $RECONCILER_FENCE" >> {effects}
"""


@dataclass(frozen=True, slots=True)
class Outage:
    """How long it lasts, the lease of the nodes, how long the two jobs last, and how they then end."""

    seconds: float
    lease_seconds: float
    jobs_last: tuple[float, float]
    holds: tuple[str, ...]


OUTAGES: Final = {
    "20 s, within the lease": Outage(20, 30, (6, 24), ("Succeeded",)),
    "10 s, beyond the lease": Outage(10, 6, (3, 300), ("LostLease", "Succeeded")),
    **({"3 min": Outage(180, 30, (20, 300), ("LostLease", "Succeeded"))} if PROOF else {}),
}


@pytest.fixture
def cluster(own_server: PostgresServer, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(own_server.create_database(), tmp_path)
    yield made
    made.close()


@dataclass
class Load:
    """Somebody who makes runs all the time; `made` are those that the store acknowledged, by their key."""

    url: str
    job: str
    made: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    heard_late: int = 0
    """Runs that were there already when a request was repeated: its first answer was lost."""
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._make_runs, args=(Database.open(self.url),))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _make_runs(self, database: Database) -> None:
        for number in count():
            if self._over.wait(0.1):
                break
            self._make(database, f"key-{number}")
        database.close()

    def _make(self, database: Database, key: str) -> None:
        def step(tx: Tx) -> tuple[int, bool]:
            return runs.create(tx, self.job, actor="load", idempotency_key=key)

        refusals = 0
        while not self._over.is_set():
            try:
                self.made[key], is_new = database.tx(step)
            except StoreUnavailableError:
                refusals += 1
                self._over.wait(0.2)
            else:
                self.heard_late += not is_new
                break
        self.refused += refusals


@pytest.mark.case("LSE-06")
@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
def test_everything_goes_on_by_itself_after_the_database_was_away(
    own_server: PostgresServer, cluster: Cluster, outage: Outage
) -> None:
    """Two leaders, three workers, two runs in progress (one ends meanwhile), slots every second, runs by hand."""
    in_progress = start_all(cluster, outage)
    with Load(cluster.url, "tiny") as load:
        cluster.wait(lambda: len(load.made) >= 10, seconds=20)
        away_seconds = take_away(own_server, outage.seconds)
        recovered = recover(cluster)
        for run_id in in_progress:
            cluster.ended(run_id, seconds=30)
    cluster.wait(lambda: all(cluster.run(each).is_over for each in load.made.values()), seconds=30)
    print(f"away {away_seconds:.1f} s; seconds after the return: {recovered}")  # noqa: T201 - `pytest -rP` shows it

    assert max(recovered.values()) <= RECOVERY_SECONDS
    assert not ended_processes(cluster)
    for run_id in in_progress:
        assert tuple(each.outcome for each in cluster.attempts(run_id)) == outage.holds
        assert cluster.run(run_id).attempt == len(outage.holds)
    for job in ("early", "late"):
        assert effects(cluster, job).count(f"end {len(outage.holds)}") == 1, "the accepted attempt did it, once"
    assert load.refused > 0
    check_each_ended_once(cluster, load)
    complaints = ["Traceback"] if "LostLease" in outage.holds else ["Traceback", "run_stopped", "session_lost"]
    assert not [(name, each) for name in cluster.processes for each in complaints if each in cluster.log(name)]


def take_away(server: PostgresServer, seconds: float) -> float:
    """Crash the database and bring it back; give how long it was away. Its recovery takes a second, or a few."""
    began_at = time.monotonic()
    server.stop("immediate")
    time.sleep(seconds - RESTART_SECONDS)
    server.start()
    return time.monotonic() - began_at


def recover(cluster: Cluster) -> dict[str, float]:
    """Seconds from the database's return until there is a leader, every node's heartbeat, and a new run's end."""
    returned_at, returned_us = time.monotonic(), cluster.database.read(lambda tx: tx.now_us())
    fresh = cluster.trigger("tiny")
    awaited = {
        "leader": lambda: term(cluster).expires_us >= returned_us + TTL_US,
        "heartbeats": lambda: beating_since(cluster, returned_us) >= set(WORKERS),
        "claims": lambda: cluster.run(fresh).is_over,
    }
    seconds = {}
    for what, is_so in awaited.items():
        cluster.wait(is_so, seconds=RECOVERY_SECONDS)
        seconds[what] = time.monotonic() - returned_at
    return seconds


def start_all(cluster: Cluster, outage: Outage) -> list[int]:
    """Two runs in progress; jobs end at once when they are told to, so that leases can be used to their end."""
    for name, seconds in zip(("early", "late"), outage.jobs_last, strict=True):
        text = ONCE_THEN_SHORT.format(effects=cluster.home / name, seconds=seconds)
        cluster.script(name, text, gracePeriod="1s")
    cluster.job("tiny", handler={"type": "command", "with": {"argv": ["/bin/true"]}})
    pulse = {"every": "1s", "anchor": "2026-01-01T00:00:00Z"}
    cluster.job("pulse", handler={"type": "command", "with": {"argv": ["/bin/true"]}}, triggers=[pulse])
    for name in ("leader-1", "leader-2"):
        cluster.start(name, "serve", str(cluster.jobs))
    cluster.loaded("early", "late", "tiny", "pulse")
    for name in WORKERS:
        heartbeat = min(1.0, outage.lease_seconds / 4)
        cluster.worker(name, "--heartbeat", f"{heartbeat}s", lease=outage.lease_seconds)
    in_progress = [cluster.trigger("early"), cluster.trigger("late")]
    cluster.wait(lambda: len(cluster.job_processes()) >= 2, seconds=20)
    return in_progress


def ended_processes(cluster: Cluster) -> list[str]:
    return [name for name, process in cluster.processes.items() if process.poll() is not None]


def term(cluster: Cluster) -> leader.Leadership:
    return cluster.database.read(leader.current)


def beating_since(cluster: Cluster, since_us: int) -> set[str]:
    """The workers with a session that was renewed since."""
    listed = cluster.database.read(lambda tx: nodes.listed(tx, limit=1000))
    return {each.name for each in listed if each.alive and each.heartbeat_us > since_us}


def effects(cluster: Cluster, job: str) -> list[str]:
    return (cluster.home / job).read_text().splitlines()


def check_each_ended_once(cluster: Cluster, load: Load) -> None:
    """What was acknowledged is there, once, and each of its runs succeeded; so is each slot."""
    made = cluster.runs(job="tiny")
    by_hand = {run.id for run in made if run.created_by == "load"}
    assert by_hand == set(load.made.values()), "each key made one run"
    assert Counter(run.state for run in made).keys() == {"Succeeded"}
    ledger = cluster.database.read(lambda tx: queries.skipped_slots(tx, limit=10_000))
    slots_us = [run.slot_us for run in cluster.runs(job="pulse")] + [row.slot_us for row in ledger]
    slots = sorted(slot_us // SECOND_US for slot_us in slots_us)
    assert slots == list(range(slots[0], slots[0] + len(slots))), "a slot is missing or there twice"
