"""Options that several commands share, and the types they read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from reconciler.cli.tables import no_color
from reconciler.clock import SECOND_US, YEARS, to_us
from reconciler.errors import UsageError
from reconciler.model.duration import parse_duration

_FRACTION: Final = re.compile(r"[0-9]{0,7}\.[0-9]{1,6}s")

Command = TypeVar("Command", bound=Callable[..., Any])

STATE_FOLDER: Final = Path(".reconciler")
DEFAULT_STORE: Final = f"sqlite:///{STATE_FOLDER / 'store.db'}"
DEFAULT_SOURCE: Final = "default"
SOURCE_HELP: Final = "Name of the source.  [default: as configured, else `default`]"


class Duration(click.ParamType[float]):
    """A duration as in the files (`30s`, `15m`), in seconds; fractions of a second are allowed here (`0.5s`)."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            if _FRACTION.fullmatch(text) and float(text[:-1]) > 0:
                return float(text[:-1])
            return parse_duration(text) / SECOND_US
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


RUN_ID: Final = click.IntRange(1, 2**63 - 1)
"""The id of a run, as the store counts them."""


def config(command: Command) -> Command:
    """Add `--config`; `cli/settings.py` reads the file when settings are asked for."""

    def choose(_ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        from reconciler.cli.settings import choose_file

        choose_file(value)

    return click.option(
        "--config",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=choose,
        help="Settings.  [env RECONCILER_CONFIG; default reconciler.yaml, if there is one]",
    )(command)


def store(command: Command) -> Command:
    """Add `--store` and `--config`; None is handed on when neither flag, environment nor file names a store."""

    def configured(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
        from reconciler.cli.settings import configured_store

        return value or configured_store()

    option = click.option(
        "--store",
        "store_url",
        metavar="URL",
        callback=configured,
        default=None,
        help=f"sqlite:///FILE or postgresql://…  [env RECONCILER_STORE; default {DEFAULT_STORE}]",
    )
    return config(option(command))


def output(command: Command) -> Command:
    """Add `--output` and `--no-color`."""
    plain = click.option(
        "--no-color",
        is_flag=True,
        expose_value=False,
        callback=no_color,
        help="No colours.  [env NO_COLOR; off a terminal there are none]",
    )
    option = click.option(
        "--output",
        "-o",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        help="How to print the answer.",
    )
    return option(plain(command))


def watch(command: Command) -> Command:
    """Add `--watch`."""
    return click.option(
        "--watch", "-w", is_flag=True, help="Draw the answer every second; off a terminal, when something changed."
    )(command)


def metrics(default: str) -> Callable[[Command], Command]:
    """Add `--metrics`."""
    return click.option(
        "--metrics",
        metavar="HOST:PORT",
        default=None,
        help=f"Where Prometheus scrapes /metrics; port 0: any, or off.  [default: {default}]",
    )


def limit(command: Command) -> Command:
    """Add `--limit`."""
    return click.option(
        "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many rows."
    )(command)


def split(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Let a repeated option also take a list: `--queues a,b --queues c`. One that names nothing is refused.

    An empty shell variable must not turn "only these" into "all".
    """
    parts = tuple(part.strip() for value in values for part in value.split(",") if part.strip())
    if values and not parts:
        raise click.BadParameter("it names nothing; leave the option out to mean all", ctx, param)
    return parts


def default_store_file() -> Path:
    """Give the file of the store that commands use when none is named."""
    return STATE_FOLDER / "store.db"


def instant(text: str) -> int:
    """Read an instant with an offset, in microseconds. Raises UsageError."""
    try:
        moment = datetime.fromisoformat(text)
        at_us = to_us(moment)
    except ValueError as fault:
        raise UsageError(f"{text!r} is no instant with an offset: write it like 2026-12-31T23:00:00Z") from fault
    if moment.year not in YEARS:
        raise UsageError(f"{text!r} is outside the years {YEARS[0]}-{YEARS[-1]}")
    return at_us
