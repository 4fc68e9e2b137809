import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from reconciler.telemetry import Event, emit, subscribe
from reconciler.telemetry.log import escape, log_events
from tests.turned import TurnedClock


@dataclass(frozen=True, slots=True)
class LampLit(Event):
    lamp: str
    watts: int


@dataclass(frozen=True, slots=True)
class LampBroke(Event):
    level: ClassVar[int] = logging.ERROR
    error: str


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def log(clock: TurnedClock) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    stop = log_events(stream, node="n1", clock=clock)
    yield stream
    stop()


def test_an_event_is_one_json_line_with_time_level_node_and_its_facts(log: io.StringIO) -> None:
    emit(LampLit("pier", 40))

    assert json.loads(log.getvalue()) == {
        "time": "2026-01-01T00:00:00Z",
        "level": "info",
        "event": "lamp_lit",
        "node": "n1",
        "lamp": "pier",
        "watts": 40,
    }


def test_a_fault_that_goes_on_is_told_at_growing_intervals(log: io.StringIO, clock: TurnedClock) -> None:
    for _ in range(40):
        emit(LampBroke("no power"))
        clock.turn(0.5)

    told = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["time"][-3:-1] for line in told] == ["00", "01", "03", "07", "15"]
    assert sum(line.get("repeated", 0) for line in told) + len(told) == 31, "those since the last are not told yet"


def test_other_faults_and_those_of_long_ago_are_told_at_once(log: io.StringIO, clock: TurnedClock) -> None:
    for _ in range(3):
        emit(LampBroke("glass"))
    emit(LampBroke("wire"))
    clock.turn(121)
    emit(LampBroke("glass"))

    assert [json.loads(line)["error"] for line in log.getvalue().splitlines()] == ["glass", "wire", "glass"]


def test_the_event_proposes_its_level(log: io.StringIO) -> None:
    emit(LampBroke("glass"))

    assert json.loads(log.getvalue())["level"] == "error"


@pytest.mark.parametrize("value", ["a\nb", "a\x1b[31mb", "a\0b", "a\rb", "a\u2028b", "a\u202eb", "a\x85b", "\ud800"])
def test_a_value_with_control_characters_stays_one_printable_line(log: io.StringIO, value: str) -> None:
    emit(LampLit(value, 1))

    line = log.getvalue()
    assert line.count("\n") == 1
    assert line.rstrip("\n").isprintable()
    assert json.loads(line)["lamp"] == escape(value)


def test_a_terminal_gets_no_escape_sequence_out_of_a_value() -> None:
    stream = Terminal()
    stop = log_events(stream, clock=TurnedClock())
    emit(LampLit("\x1b]0;title\x07\nforged line", 1))
    stop()

    assert "\x1b]0" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_text_without_control_characters_is_logged_as_it_is() -> None:
    assert escape("Zürich — 東京 ✓") == "Zürich — 東京 ✓"


def test_events_below_the_level_are_not_logged() -> None:
    stream = io.StringIO()
    stop = log_events(stream, level=logging.WARNING, clock=TurnedClock())
    emit(LampLit("pier", 40))
    stop()

    assert not stream.getvalue()


def test_a_broken_subscriber_stops_neither_the_emitter_nor_the_others() -> None:
    seen: list[Event] = []

    def broken(_event: Event) -> None:
        raise RuntimeError

    stops = [subscribe(broken), subscribe(seen.append)]
    emit(LampLit("pier", 40))
    for stop in stops:
        stop()
    emit(LampLit("quay", 40))

    assert seen == [LampLit("pier", 40)]
