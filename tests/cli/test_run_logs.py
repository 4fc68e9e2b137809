"""What people see of a run's lines, and are told where there are none."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from reconciler.cli import run
from reconciler.model.lease import Session
from reconciler.model.log import LogLine, OutputStream
from reconciler.model.run import AttemptOutcome, Claim, Outcome
from reconciler.store import claiming, claims, nodes
from reconciler.store.database import Database

LEASE_US: Final = 30_000_000


@dataclass
class Node:
    """A node that takes the protocol's steps one by one."""

    database: Database
    session: Session

    def claim(self) -> Claim:
        (held,) = self.database.tx(lambda tx: claiming.claim(tx, self.session, limit=1, handlers=["slow"], queues=None))
        return held

    def end(self, held: Claim, result: AttemptOutcome, *printed: str) -> None:
        log = [
            LogLine(held.run_id, held.fence, seq, OutputStream.STDOUT, seq, text) for seq, text in enumerate(printed)
        ]
        outcome = Outcome(held.run_id, held.fence, held.attempt, result, started_us=0, finished_us=1, log=log)
        assert self.database.tx(lambda tx: claims.finish(tx, self.session, [outcome]))


@pytest.fixture
def node(home: Path, store_url: str) -> Iterator[Node]:
    database = Database.open(store_url)
    session = database.tx(
        lambda tx: nodes.register(
            tx,
            "one",
            host="here",
            pid=1,
            secret="s",
            queues=None,
            handlers=["slow"],
            tags=(),
            slots=4,
            lease_us=LEASE_US,
        )
    )
    yield Node(database, session)
    database.close()


def test_a_heading_parts_the_attempts_and_leaves_the_lines_to_programs(
    node: Node, told: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    told("trigger", "report")
    node.end(node.claim(), AttemptOutcome.HANDED_BACK, "begun", "half done")
    node.end(node.claim(), AttemptOutcome.SUCCEEDED, "begun", "done")

    assert run(["runs", "logs", "1"]) == 0
    shown = capsys.readouterr()
    of_one = told("runs", "logs", "1", "--attempt", "9")

    assert shown.out.splitlines() == ["begun", "half done", "begun", "done"]
    assert shown.err.splitlines() == ["-- attempt 1 (fence 1) on one", "-- attempt 1 (fence 2) on one"]
    assert "--" not in told("runs", "logs", "1", "-o", "json")
    assert of_one == "run 1 wrote nothing there\n"


def test_a_single_attempt_has_no_heading(node: Node, told: Callable[..., str]) -> None:
    told("trigger", "report")
    node.end(node.claim(), AttemptOutcome.SUCCEEDED, "begun", "done")

    assert told("runs", "logs", "1") == "begun\ndone\n"


@pytest.mark.parametrize(
    ("printed", "says"), [((), "it wrote nothing"), (("oh",), "what it wrote: reconciler runs logs 1")]
)
def test_who_waits_for_a_run_that_failed_is_sent_to_its_lines_only_if_there_are_some(
    printed: tuple[str, ...], says: str, node: Node, told: Callable[..., str]
) -> None:
    told("trigger", "report")
    node.end(node.claim(), AttemptOutcome.FAILED, *printed)

    waited = told("runs", "wait", "1", code=1)

    assert waited.splitlines()[-1] == says
    assert ("wrote nothing" in told("runs", "logs", "1")) is (not printed)
