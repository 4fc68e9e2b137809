"""The log: one line for each event, for people on a terminal and as JSON for everything else.

Law (security.md, rule 14): whatever a value holds, one event is one line. Newlines, escapes and other control
characters of values are shown as escapes, so that no job, file name or database message can forge a log line or send a
sequence to a terminal.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import sys
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from reconciler.clock import Clock, SystemClock, iso
from reconciler.telemetry import Event, subscribe

_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONGEST_PAUSE_SECONDS: Final = 60.0
_FORGET_SECONDS: Final = 120.0
"""A fault that was not seen for so long is a new one."""
_MOST_FAULTS: Final = 256
_UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control, format (bidirectional marks among them), surrogate, line and paragraph separators."""


def log_events(
    stream: TextIO | None = None, *, node: str = "", level: int = logging.INFO, clock: Clock | None = None
) -> Callable[[], None]:
    """Write every event from `level` up to `stream` (standard error); the function given back stops it.

    A terminal gets coloured text, anything else JSON lines: `time`, `level`, `event`, `node` and the event's fields.
    A fault that goes on is told at growing intervals, with how often it was `repeated`.
    """
    out, clock = stream or sys.stderr, clock or SystemClock()
    log = structlog.wrap_logger(
        structlog.WriteLogger(out),
        processors=[structlog.processors.add_log_level, _stamp(clock), _escape, *_renderer(out)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    if node:
        log = log.bind(node=node)

    repeats = _Repeats(clock)

    def write(event: Event) -> None:
        if event.level < level:
            return  # most events of a busy worker: nothing is made of them
        facts = _facts(event)
        if event.level >= logging.WARNING and "error" in facts:
            untold = repeats.count(f"{type(event).__name__} {facts}")
            if untold is None:
                return
            facts |= {"repeated": untold} if untold else {}
        log.log(event.level, _name(type(event).__name__), **facts)

    return subscribe(write)


class _Repeats:
    """Which of many equal faults are told: the first, and then one after 1, 2, 4 … 60 s."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: OrderedDict[str, _Fault] = OrderedDict()

    def count(self, text: str) -> int | None:
        """Give how many equal ones were kept back since the last that was told; None: keep this one back as well."""
        now = self._clock.elapsed()
        fault = self._seen.get(text)
        if fault is None or now >= fault.seen_at + _FORGET_SECONDS:
            fault = self._seen[text] = _Fault(now)
        self._seen.move_to_end(text)
        while len(self._seen) > _MOST_FAULTS:
            self._seen.popitem(last=False)
        fault.seen_at = now
        if now < fault.tell_at:
            fault.untold += 1
            return None
        untold, fault.untold = fault.untold, 0
        fault.tell_at = now + fault.pause
        fault.pause = min(2 * fault.pause, _LONGEST_PAUSE_SECONDS)
        return untold


@dataclass(slots=True)
class _Fault:
    tell_at: float
    seen_at: float = 0.0
    pause: float = 1.0
    untold: int = 0


def escape(text: str) -> str:
    """Show every character that could break a line, forge one or drive a terminal as a backslash escape."""
    if text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if unicodedata.category(character) in _UNSAFE_CATEGORIES:
        return character.encode("unicode_escape").decode("ascii")
    return character


@cache
def _name(kind: str) -> str:
    return _WORD_START.sub("_", kind).lower()


def _facts(event: Event) -> dict[str, Any]:
    return {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}


def _stamp(clock: Clock) -> Processor:
    def add_time(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
        return {"time": iso(clock.now_us()), **line}

    return add_time


def _escape(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    return {key: escape(value) if isinstance(value, str) else value for key, value in line.items()}


def _renderer(stream: TextIO) -> list[Processor]:
    if stream.isatty():
        console = structlog.dev.ConsoleRenderer(colors=True, timestamp_key="time")
        return [cast("Processor", console)]
    return [structlog.processors.JSONRenderer(serializer=_json)]


def _json(line: EventDict, **_options: Any) -> str:
    return json.dumps(line, ensure_ascii=False, default=lambda value: escape(str(value)))
