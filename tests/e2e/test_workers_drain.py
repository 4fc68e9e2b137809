"""Four worker processes drain 2,000 runs of a real program."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest
from sqlalchemy import func, select

from reconciler.model.run import RunState
from reconciler.store import runs
from reconciler.store.database import Tx
from reconciler.store.tables import attempts, run_history
from tests.e2e.cluster import Cluster

WORKERS: Final = 4
TOTAL: Final = 2000
BATCH: Final = 100
SECONDS: Final = 150.0

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS + 60)]


def test_four_workers_drain_two_thousand_runs_each_executed_and_accepted_once(cluster: Cluster) -> None:
    """R2, R4: nothing is lost, nothing runs twice, and nobody has anything to complain of."""
    cluster.job("tiny", handler={"type": "command", "with": {"argv": ["/bin/true"]}})
    cluster.serve("leader", "--leader-ttl", "15s")
    cluster.loaded("tiny")
    workers = [f"worker-{number}" for number in range(WORKERS)]
    for name in workers:
        _start(cluster, name)

    made = [run_id for _ in range(TOTAL // BATCH) for run_id in _make(cluster)]
    _await_all(cluster, ["leader", *workers])

    found = cluster.runs()
    assert {run.id: run.state for run in found} == dict.fromkeys(made, RunState.SUCCEEDED)
    assert {(run.attempt, run.fence, run.lost_leases) for run in found} == {(1, 1, 0)}
    holds = cluster.database.read(lambda tx: list(tx.execute(select(attempts.c.run_id)).scalars()))
    assert sorted(holds) == sorted(made), "one attempt each"
    shares = Counter(run.node for run in found)
    assert len(shares) == WORKERS, f"one of them did nothing: {shares}"
    for name in ("leader", *workers):
        complaints = [line for line in cluster.log(name).splitlines() if '"info"' not in line]
        assert not complaints, f"{name} complains"


def _start(cluster: Cluster, name: str) -> None:
    own = ("--node-id", name, "--slots", "8", "--allow", "/bin/true", "--data", str(cluster.home / "data"))
    process = cluster.start(name, "worker", *own)
    cluster.wait(lambda: cluster.session_of(name, process.pid), seconds=20)


def _make(cluster: Cluster) -> list[int]:
    def step(tx: Tx) -> list[int]:
        return [runs.create(tx, "tiny", actor="tests")[0] for _ in range(BATCH)]

    return cluster.database.tx(step)


def _await_all(cluster: Cluster, names: Sequence[str]) -> None:
    try:
        cluster.wait(lambda: _ended(cluster) == TOTAL, seconds=SECONDS)
    except AssertionError:
        states = Counter(str(run.state) for run in cluster.runs())
        logs = "".join(f"\n--- {name}:\n{cluster.log(name)[-2000:]}" for name in names)
        pytest.fail(f"not all {TOTAL} runs ended within {SECONDS:g} s: {states}{logs}", pytrace=False)


def _ended(cluster: Cluster) -> int:
    def step(tx: Tx) -> int:
        return int(tx.execute(select(func.count()).select_from(run_history)).scalar_one())

    return cluster.database.read(step)
