"""`reconciler config`: the settings that hold, and where each came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from reconciler.cli import options, show
from reconciler.cli.keys import FLAGS, held_in_file, is_duration, is_secret, keys, twin_of, variable_of
from reconciler.cli.relations import ADDRESSES
from reconciler.cli.secrets import without_passwords
from reconciler.cli.settings import Settings, load
from reconciler.config import values_of
from reconciler.errors import UsageError

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@click.group()
def command() -> None:
    """Show the settings that hold, and where each came from.

    \b
    Examples:
      reconciler config show
      reconciler config show --origin
      reconciler config show --config /etc/reconciler/reconciler.yaml -o yaml > copy.yaml
    """


@command.command(name="show")
@options.config
@click.option(
    "--origin", "with_origin", is_flag=True, help="Say of each where it came from, and its variable and flag."
)
@options.output
def show_(with_origin: bool, output: str) -> None:
    """Show every setting: a flag wins over the environment, that over reconciler.yaml, this over the default.

    \b
    Examples:
      reconciler config show --origin
    """
    settings = load(listens=ADDRESSES)
    shown = {key: _shown(key, value) for key, value in _values(settings).items()}
    if output == "table":
        _print_table(settings, shown, with_origin=with_origin)
    elif with_origin:
        items = [{"key": key, "value": value, **_origin(settings, key)} for key, value in shown.items()]
        show.print_value({"formatVersion": show.FORMAT_VERSION, "items": items}, output)
    else:
        show.print_value(_nested(shown), output)


def _values(settings: Settings) -> dict[str, Any]:
    """List every key of the file with what holds, names of files too."""
    held = values_of(settings.config)
    files = {key: each.value for key, each in settings.given.items() if held_in_file(key)}
    return {key: files.get(key) if held_in_file(key) else held[key] for key in keys()}


def _print_table(settings: Settings, shown: dict[str, Any], *, with_origin: bool) -> None:
    rows = [{"key": key, "value": value, **_origin(settings, key)} for key, value in shown.items()]
    columns = ["key", "value", "origin", "variable", "flag"] if with_origin else ["key", "value", "origin"]
    show.print_list([{**row, "value": _cell(row["value"])} for row in rows], "table", columns, empty="")


def _origin(settings: Settings, key: str) -> dict[str, Any]:
    return {"origin": settings.origin(key), "variable": variable_of(key), "flag": FLAGS.get(key)}


def _shown(key: str, value: Any) -> Any:
    """Give a value as the file would say it, without what is secret in it."""
    if value is not None and is_secret(key):
        return masked(value) if key == "store.url" else "(set)"
    if value is not None and is_duration(key):
        return duration(value)
    if held_in_file(key) and value is not None:
        return without_passwords(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def masked(url: str) -> str:
    """Show a store's URL without its password."""
    from reconciler.store.database import parse_url, shown_url

    try:
        return shown_url(parse_url(url))
    except UsageError:
        return "(no store URL)"


def duration(seconds: float) -> str:
    """Write seconds as the files do: `90s`, `15m`, `24h`."""
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _nested(shown: dict[str, Any]) -> dict[str, Any]:
    """Give the settings in the shape of the file, so that what is printed can be one; unset ones are left out.

    So is a secret that was read from a file: the file says its name.
    """
    tree: dict[str, Any] = {}
    for key, value in shown.items():
        group, _, name = key.partition(".")
        if value is None or (is_secret(key) and shown[str(twin_of(key))] is not None):
            continue
        if name:
            tree.setdefault(group, {})[name] = value
        else:
            tree[group] = value
    return tree


def _cell(value: Any) -> Any:
    match value:
        case [{"name": _, "path": _}, *_]:
            return ",".join(f"{each['name']}={each['path']}" for each in value)
        case _:
            return value
