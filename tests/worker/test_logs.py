"""Writing logs while their jobs run: against a store that is scripted by the test."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from reconciler.errors import SessionLostError, StoreUnavailableError
from reconciler.model.lease import Session
from reconciler.model.log import LogLine, OutputStream
from reconciler.telemetry import Event, subscribe
from reconciler.worker.events import FencedOut, StepFailed, StoreFailed
from reconciler.worker.lines import RunLog
from reconciler.worker.logs import MOST_LINES, Logs
from tests.turned import TurnedClock
from tests.worker.logs import SESSION, claim

OTHER = Session(2, 2, "n1", "b")


@dataclass
class Book:
    """Takes lines as the store would."""

    clock: TurnedClock = field(default_factory=TurnedClock)
    batches: list[list[str]] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    poison: str = "poison"
    events: list[Event] = field(default_factory=list)
    logs: Logs = field(init=False)
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.logs = Logs("n1", self.append, clock=self.clock)

    def append(self, _session: Session, lines: Sequence[LogLine]) -> set[tuple[int, int]]:
        if self.faults:
            raise self.faults.pop(0)
        if any(line.text == self.poison for line in lines):
            raise ValueError("cannot be stored\nwhat it was")
        self.batches.append([line.text for line in lines])
        return {(line.run_id, line.fence) for line in lines} - {(each, 1) for each in self.refused}

    def print(self, run_id: int, *texts: str, session: Session = SESSION) -> RunLog:
        log = self.logs.open(claim(run_id), session)
        self.go_on(log, *texts)
        return log

    def go_on(self, log: RunLog, *texts: str) -> None:
        for text in texts:
            log.add(OutputStream.STDOUT, 0, f"{text}\n".encode())

    def write(self, turns: int = 1) -> Session | None:
        """Let some time pass, and so many batches be written."""
        self.clock.turn(0.5)
        lost = [self.logs.write_due(self.stopping) for _ in range(turns)]
        return next((each for each in lost if each), None)

    def told(self) -> list[str]:
        return [event.operation for event in self.events if isinstance(event, FencedOut)]


@pytest.fixture
def book() -> Iterator[Book]:
    book = Book()
    stop = subscribe(book.events.append)
    yield book
    stop()


def test_lines_of_all_jobs_are_written_together_at_most_twice_a_second(book: Book) -> None:
    first, second = book.print(1, "a", "b"), book.print(2, "c")
    book.write(turns=3)
    book.go_on(first, "d")
    book.logs.write_due(book.stopping)
    book.go_on(second, "e")
    book.clock.turn(0.4)
    book.logs.write_due(book.stopping)
    book.write(turns=3)

    assert book.batches == [["a", "b", "c"], ["d", "e"]]


def test_a_batch_is_bounded_and_what_is_over_comes_at_once_but_last(book: Book) -> None:
    book.print(1, *["x"] * (MOST_LINES + 10))
    book.print(2, "other")
    book.write(turns=2)

    assert book.batches == [["x"] * MOST_LINES, ["other", *["x"] * 10]]


def test_long_lines_make_a_batch_of_their_own_size(book: Book) -> None:
    for run_id in range(4):
        book.print(run_id, *["x" * 16_000] * 30)
    book.write(turns=5)

    assert [len(batch) for batch in book.batches] == [66, 54]


def test_a_batch_never_mixes_sessions(book: Book) -> None:
    book.print(1, "a")
    book.print(2, "b", session=OTHER)
    book.print(3, "c")
    book.write(turns=2)

    assert book.batches == [["a", "c"], ["b"]]


def test_a_refused_log_is_told_once_and_dropped(book: Book) -> None:
    book.refused = {2}
    kept, refused = book.print(1, "a"), book.print(2, "late")
    book.write()
    book.go_on(kept, "b")
    book.go_on(refused, "later")
    book.write()

    assert book.batches == [["a", "late"], ["b"]]
    assert [event for event in book.events if isinstance(event, FencedOut)] == [FencedOut("n1", 2, 1, "log")]


def test_a_session_that_is_over_ends_all_its_logs_and_is_given_back(book: Book) -> None:
    book.faults = [SessionLostError("over")]
    book.print(1, "a")
    book.print(2, "b")

    assert book.write() == SESSION
    assert book.told() == ["log", "log"]
    assert book.write() is None


def test_a_store_that_is_away_gets_the_same_lines_again(book: Book) -> None:
    book.faults = [StoreUnavailableError("away"), StoreUnavailableError("away")]
    book.print(1, "a")
    book.write()

    assert book.batches == [["a"]]
    assert [event.step for event in book.events if isinstance(event, StoreFailed)] == ["log", "log"]


def test_lines_that_the_store_chokes_on_are_dropped_and_hold_up_no_others(book: Book) -> None:
    book.print(1, "a")
    book.print(2, "poison")
    book.print(3, "b")
    book.write()

    assert book.batches == [["a"], ["b"]]
    assert {event.error for event in book.events if isinstance(event, StepFailed)} == {"ValueError: cannot be stored"}


def test_a_worker_that_stops_waits_no_longer_for_a_store_that_is_away(book: Book) -> None:
    book.faults = [StoreUnavailableError("away")]
    book.stopping.set()
    book.print(1, "a")
    book.write()

    assert book.batches == []
