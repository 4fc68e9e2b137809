"""Answers on a screen: tables and facts for people, drawn anew while they watch; plain text where nobody does."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from typing import Any, Final, NoReturn

import click

from reconciler.clock import SystemClock
from reconciler.errors import StoreUnavailableError

_NO_COLOR: Final = "reconciler.cli.tables.no_color"
_EVERY_SECONDS: Final = 1.0
_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_MOVING: Final = frozenset({"now", "heartbeatAt", "leaseUntil", "expiresAt", "expiresInSeconds", "oldestAgeSeconds"})
"""What changes by itself as time passes: no news to who reads a file of it."""
_ABSENT: Final = {"queues": "all"}
"""What it means that a column says nothing, where that is not nothing."""
_STYLES: Final = {
    **dict.fromkeys(("Succeeded", "Applied", "Active", "ok"), "green"),
    **dict.fromkeys(("Failed", "TimedOut", "DeadLettered", "Refused", "Expired", "Dead", "fail"), "red"),
    **dict.fromkeys(("Running", "Claimed"), "cyan"),
    **dict.fromkeys(("Retrying", "Blocked", "Invalid", "Draining", "Degraded", "warn"), "yellow"),
}


def no_color(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    """Note `--no-color`."""
    if value:
        context.meta[_NO_COLOR] = True


def is_terminal() -> bool:
    """Whether somebody looks at standard output through a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def has_color() -> bool:
    """Whether colour is wanted (no-color.org): on a terminal, unless the reader or the command line says no."""
    context = click.get_current_context(silent=True)
    declined = bool(os.environ.get("NO_COLOR")) or (context is not None and _NO_COLOR in context.meta)
    return is_terminal() and not declined


def table(items: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Draw rows under the names of their columns; wide ones are folded to a terminal, and never cut elsewhere."""
    heads = [_WORD.sub(" ", column).upper() for column in columns]
    rows = [[_named(column, item.get(column)) for column in columns] for item in items]
    return _colored(heads, rows) if has_color() else _plain(heads, rows)


def facts(pairs: Iterable[tuple[str, Any]], *, indent: str = "") -> str:
    """Draw names and values, one pair a line."""
    shown = [(name, _named(name, value)) for name, value in pairs]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{indent}{name:<{width}}  {value}".rstrip() for name, value in shown)


def colored(text: str, word: str) -> str:
    """Draw a text in the colour of a state or verdict."""
    style = _STYLES.get(word)
    return click.style(text, fg=style) if style and has_color() else text


def heading(text: str) -> str:
    """Draw the title of a part."""
    return click.style(text, bold=True) if has_color() else text


def _named(name: str, value: Any) -> str:
    return cell(_ABSENT.get(name) if value is None else value)


def cell(value: Any) -> str:
    """Give a value in one line; nothing in it can drive a terminal."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(cell, value)) or "-"
        case {"type": kind, "message": message}:
            return f"{kind}: {cell(message)}"
        case {"by": by, "since": _, "until": until}:
            return f"by {cell(by)}" + (f" until {until}" if until else "")
        case {"state": state, "finishedAt": _}:
            return str(state)
        case dict():
            return ", ".join(f"{name}={cell(each)}" for name, each in value.items()) or "-"
        case _:
            return "".join(character if character.isprintable() else " " for character in str(value))


def watched(draw: Callable[[], tuple[str, Any]]) -> NoReturn:
    """Draw an answer every second until interrupted; where no terminal is, only when there is news.

    `draw` gives the text, and the value by which news are recognised.
    """
    clock, never = SystemClock(), threading.Event()
    before: Any = None
    while True:
        try:
            text, value = draw()
        except StoreUnavailableError as fault:  # who watches an outage wants to see its end
            text = value = f"error: {fault}"
        if is_terminal():
            lines = text.splitlines()[: shutil.get_terminal_size().lines - 1]
            body = "".join(f"{line}{_END_OF_LINE}\n" for line in lines)
            click.echo(f"{_HOME}{body}{_BELOW}", nl=False, color=True)
        elif (news := _still(value)) != before:
            click.echo(text)
            before = news
        sys.stdout.flush()
        clock.wait(never, _EVERY_SECONDS)


def _still(value: Any) -> Any:
    """Leave out what moves by itself."""
    match value:
        case Mapping():
            return {name: _still(each) for name, each in value.items() if name not in _MOVING}
        case list() | tuple():
            return [_still(each) for each in value]
        case _:
            return value


def _plain(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in (heads, *rows)
    )


def _colored(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        drawn.add_column(head, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(text, style=_STYLES.get(text.partition(":")[0], "")) for text in row))
    page = StringIO()
    width = shutil.get_terminal_size().columns
    Console(file=page, force_terminal=True, width=width, highlight=False).print(drawn)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())
