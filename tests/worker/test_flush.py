"""The flusher against a store that is scripted by the test: which results go together, and what becomes of refusals."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from reconciler.clock import SystemClock
from reconciler.errors import SessionLostError, StoreUnavailableError
from reconciler.model.lease import Session
from reconciler.model.log import LogLine, OutputStream
from reconciler.model.run import AttemptOutcome, Outcome, RunState
from reconciler.telemetry import Event, subscribe
from reconciler.worker.events import FencedOut, StepFailed, StoreFailed
from reconciler.worker.flush import Flusher
from reconciler.worker.logs import MOST_LINES, Logs
from tests.turned import TurnedClock
from tests.worker.logs import claim
from tests.worker.waiting import until

pytestmark = pytest.mark.timeout(20)

SESSION, OTHER = Session(1, 1, "n1", "a"), Session(2, 2, "n1", "b")


def outcome(run_id: int, result: AttemptOutcome = AttemptOutcome.SUCCEEDED, output: str = "") -> Outcome:
    return Outcome(run_id, 1, 1, result, started_us=0, finished_us=1, output=output)


@dataclass
class Desk:
    """Takes results as the store would; `closed` holds it shut until the test opens it."""

    closed: threading.Event = field(default_factory=threading.Event)
    writes: list[tuple[Session, list[Outcome]]] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)
    poison: set[str] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    recorded: set[int] = field(default_factory=set)
    appended: list[list[str]] = field(default_factory=list)

    def __call__(self, session: Session, outcomes: Sequence[Outcome]) -> dict[int, RunState]:
        self.closed.wait(10)
        self.writes.append((session, list(outcomes)))
        if self.faults:
            raise self.faults.pop(0)
        if self.poison & {each.output for each in outcomes}:
            raise ValueError("cannot be stored")
        return {each.run_id: RunState.SUCCEEDED for each in outcomes if each.run_id not in self.refused}

    def append(self, _session: Session, lines: Sequence[LogLine]) -> set[tuple[int, int]]:
        self.closed.wait(10)
        self.appended.append([line.text for line in lines])
        return {(line.run_id, line.fence) for line in lines} - {(each, 1) for each in self.refused}

    def read_back(self, _session: Session, outcomes: Sequence[Outcome]) -> dict[int, RunState]:
        return {each.run_id: RunState.SUCCEEDED for each in outcomes if each.run_id in self.recorded}


@dataclass
class Office:
    desk: Desk
    flusher: Flusher
    logs: Logs
    events: list[Event]

    def write(self, *outcomes: Outcome, session: Session = SESSION) -> None:
        for each in outcomes:
            self.flusher.put(session, each)

    def settle(self) -> None:
        self.desk.closed.set()
        until(lambda: self.flusher.is_idle)


@pytest.fixture
def office() -> Iterator[Office]:
    desk = Desk()
    logs = Logs("n1", desk.append, clock=TurnedClock())
    flusher = Flusher("n1", desk, read_back=desk.read_back, logs=logs, clock=SystemClock(), wake=lambda: None)
    until(lambda: logs.wait_seconds > 0)  # from here on lines go with results only
    office = Office(desk, flusher, logs, [])
    stop = subscribe(office.events.append)
    yield office
    desk.closed.set()
    office.flusher.close()
    stop()


def test_results_that_end_while_one_is_being_written_are_written_together(office: Office) -> None:
    office.write(outcome(1))
    until(office.flusher._results.empty)  # noqa: SLF001 - the first write has begun
    office.write(*map(outcome, range(2, 50)))
    office.settle()

    assert [[each.run_id for each in batch] for _, batch in office.desk.writes] == [[1], list(range(2, 50))]


def test_a_batch_never_mixes_sessions(office: Office) -> None:
    office.write(outcome(1))
    until(office.flusher._results.empty)  # noqa: SLF001 - same
    office.write(outcome(2))
    office.write(outcome(3), session=OTHER)
    office.settle()

    assert [(session, [each.run_id for each in batch]) for session, batch in office.desk.writes] == [
        (SESSION, [1]),
        (SESSION, [2]),
        (OTHER, [3]),
    ]


def test_a_refused_result_is_counted_and_dropped(office: Office) -> None:
    office.desk.refused = {2}
    office.write(outcome(1), outcome(2, AttemptOutcome.HANDED_BACK), outcome(3))
    office.settle()

    assert [event for event in office.events if isinstance(event, FencedOut)] == [FencedOut("n1", 2, 1, "hand_back")]


def test_a_lost_session_refuses_all_its_results_and_is_told(office: Office) -> None:
    office.desk.faults = [SessionLostError("over")]
    office.write(outcome(1))
    office.settle()

    assert office.flusher.lost.get() == SESSION
    assert [event for event in office.events if isinstance(event, FencedOut)] == [FencedOut("n1", 1, 1, "finish")]


def test_a_store_that_is_away_gets_the_same_results_again(office: Office) -> None:
    office.desk.faults = [StoreUnavailableError("away"), StoreUnavailableError("away")]
    office.write(outcome(1))
    office.settle()

    assert [batch for _, batch in office.desk.writes] == [[outcome(1)]] * 3
    assert sum(isinstance(event, StoreFailed) for event in office.events) == 2


def test_a_result_that_was_taken_before_the_session_ended_is_not_told_as_refused(office: Office) -> None:
    """R4: its answer was lost, so it is read back; that of run 2 was lost before the store took it."""
    office.desk.faults = [StoreUnavailableError("no answer"), SessionLostError("over")]
    office.desk.recorded = {1}
    office.write(outcome(1))
    office.settle()
    office.desk.faults = [StoreUnavailableError("no answer"), SessionLostError("over")]
    office.write(outcome(2))
    office.settle()

    assert [event for event in office.events if isinstance(event, FencedOut)] == [FencedOut("n1", 2, 1, "finish")]


def test_a_result_is_known_until_it_is_written_or_refused(office: Office) -> None:
    office.write(outcome(1), outcome(2))
    known = office.flusher.unwritten
    office.settle()

    assert (known, office.flusher.unwritten) == ({(1, 1), (2, 1)}, set())


def test_a_result_that_the_store_chokes_on_holds_up_no_other_and_is_stored_without_its_text(office: Office) -> None:
    office.desk.poison = {"poison"}
    office.write(outcome(1))
    until(office.flusher._results.empty)  # noqa: SLF001 - same
    office.write(outcome(2), outcome(3, output="poison"), outcome(4))
    office.settle()

    accepted = [batch for _, batch in office.desk.writes if "poison" not in {each.output for each in batch}]
    bare = replace(outcome(3), error="the result could not be stored (ValueError)")
    assert accepted == [[outcome(1)], [outcome(2)], [outcome(4)], [bare]]
    assert any(isinstance(event, StepFailed) for event in office.events)


def test_the_end_of_a_log_is_written_with_the_result(office: Office) -> None:
    log = office.logs.open(claim(2), SESSION)
    office.write(outcome(1))
    until(office.flusher._results.empty)  # noqa: SLF001 - the first write has begun
    log.add(OutputStream.STDERR, 5, b"last words\n")
    office.flusher.put(SESSION, outcome(2), log)
    office.settle()

    assert [each.log for _, batch in office.desk.writes for each in batch] == [
        (),
        [LogLine(2, 1, 1, OutputStream.STDERR, 5, "last words")],
    ]
    assert office.desk.appended == []


def test_a_log_too_long_for_one_batch_is_written_before_its_result_and_holds_up_no_other(office: Office) -> None:
    log = office.logs.open(claim(2), SESSION)
    office.write(outcome(1))
    until(office.flusher._results.empty)  # noqa: SLF001 - same
    log.add(OutputStream.STDOUT, 0, b"x\n" * (2 * MOST_LINES + 1))
    office.flusher.put(SESSION, outcome(2), log)
    office.write(outcome(3))
    office.settle()

    assert [(each.run_id, len(each.log)) for _, batch in office.desk.writes for each in batch] == [
        (1, 0),
        (3, 0),
        (2, 1),
    ]
    assert sum(map(len, office.desk.appended)) == 2 * MOST_LINES


def test_a_log_that_is_refused_leaves_its_result_to_be_refused_too(office: Office) -> None:
    office.desk.refused = {1}
    log = office.logs.open(claim(1), SESSION)
    for _ in range(20):
        log.add(OutputStream.STDOUT, 0, b"x\n" * MOST_LINES)
        log.add(OutputStream.STDOUT, 0, b"x" * 16_000 + b"\n")
    log.end()
    office.flusher.put(SESSION, outcome(1), log)
    office.settle()

    assert [event.operation for event in office.events if isinstance(event, FencedOut)] == ["log", "finish"]
    assert [len(each.log) for _, batch in office.desk.writes for each in batch] == [0]
