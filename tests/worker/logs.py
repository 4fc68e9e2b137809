"""Logs in the hands of a test."""

from collections.abc import Callable

from reconciler.model.lease import Session
from reconciler.model.run import Claim
from reconciler.worker.lines import Allowance, RunLog
from tests.turned import TurnedClock

SESSION = Session(1, 1, "n1", "a")


def claim(run_id: int = 1, fence: int = 1) -> Claim:
    return Claim(
        run_id,
        fence,
        attempt=1,
        definition_id=1,
        generation=1,
        trigger_id=None,
        slot_us=0,
        handler="command",
        parameters=None,
    )


def run_log(
    allowance: Allowance | None = None,
    *,
    run_id: int = 1,
    session: Session = SESSION,
    announce: Callable[[RunLog], None] = lambda _: None,
) -> RunLog:
    """The log of a hold on a run."""
    return RunLog(claim(run_id), session, allowance or Allowance(TurnedClock()), announce=announce)


def texts(log: RunLog) -> list[str]:
    """Take the lines that wait, each with the name of its stream."""
    return [f"{line.stream} {line.text}" for line in log.take(10**9, 10**9)]
