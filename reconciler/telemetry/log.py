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
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from reconciler.clock import Clock, SystemClock, iso
from reconciler.telemetry import Event, subscribe

_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control, format (bidirectional marks among them), surrogate, line and paragraph separators."""


def log_events(
    stream: TextIO | None = None, *, node: str = "", level: int = logging.INFO, clock: Clock | None = None
) -> Callable[[], None]:
    """Write every event from `level` up to `stream` (standard error); the function given back stops it.

    A terminal gets coloured text, anything else JSON lines: `time`, `level`, `event`, `node` and the event's fields.
    """
    out = stream or sys.stderr
    log = structlog.wrap_logger(
        structlog.WriteLogger(out),
        processors=[structlog.processors.add_log_level, _stamp(clock or SystemClock()), _escape, *_renderer(out)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    if node:
        log = log.bind(node=node)

    def write(event: Event) -> None:
        if event.level < level:
            return  # most events of a busy worker: nothing is made of them
        log.log(event.level, _name(type(event).__name__), **_facts(event))

    return subscribe(write)


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


def _facts(event: Event) -> Mapping[str, Any]:
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
