"""`reconciler validate`: check definition files. Needs no store, and imports none."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli import Exit, options
from reconciler.cli.settings import load
from reconciler.clock import SystemClock
from reconciler.errors import RefusedError
from reconciler.spec.load import SourceUnavailableError, load_paths
from reconciler.spec.report import as_json, as_text, is_valid


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--now", metavar="INSTANT", default=None, help="The year of warnings begins here.  [default: now]")
@options.config
@click.option("--verbose", "-v", is_flag=True, help="List every file that was read or ignored, and why.")
def command(paths: tuple[Path, ...], output: str, strict: bool, now: str | None, verbose: bool) -> int:
    """Check the definitions in PATHS (default: the configured sources, jobs.d) and show every problem at once.

    \b
    Examples:
      reconciler validate jobs.d
      reconciler validate jobs.d/exports/partner-export.yaml --output json
    """
    settings = load()
    wanted = paths or tuple(Path(each.path) for each in settings.config.sources)
    now_us = SystemClock().now_us() if now is None else options.instant(now)
    try:
        tree = load_paths(wanted, limits=settings.limits, time_zone=settings.time_zone, warn_from_us=now_us)
    except SourceUnavailableError as fault:
        raise RefusedError(fault.refusal) from fault
    click.echo(as_json(tree) if output == "json" else as_text(tree, verbose=verbose))
    return Exit.DONE if is_valid(tree, strict=strict) else Exit.INVALID
