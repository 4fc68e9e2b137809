"""`reconciler import`: definitions from what another scheduler is told. Needs no store.

Nothing is written before all of it is known to be valid, and its fire times to be those of the crontab.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from reconciler.cli import Exit, options
from reconciler.cli.config import duration
from reconciler.cli.settings import load
from reconciler.clock import SystemClock, from_us, to_us
from reconciler.errors import RefusedError, UsageError, in_order
from reconciler.model.definition import Job
from reconciler.model.tree import Tree
from reconciler.schedule import TimingError
from reconciler.schedule.occurrences import compile_timing
from reconciler.schedule.zones import load_zone
from reconciler.spec.crontab.prove import DAYS, Proof, Span, prove
from reconciler.spec.crontab.read import Crontab, read_crontab
from reconciler.spec.crontab.write import Pages, Written, pages_of
from reconciler.spec.files import Content, Scan, SourceUnavailableError, shown, single
from reconciler.spec.load import tree_of
from reconciler.spec.report import as_text, frame, is_valid
from reconciler.spec.source import Limits
from reconciler.words import count

_STDIN: Final = "-"
_MOST_SLOTS: Final = 1_000_000
"""More than a schedule by the minute has in a year."""


@click.group()
def command() -> None:
    """Write definitions from what another scheduler is told.

    \b
    Examples:
      reconciler import crontab etl.crontab --tz Europe/Berlin
    """


def _options(function: Any) -> Any:
    """Add the options of `import crontab`."""
    for option in (
        click.option(
            "--now", metavar="INSTANT", default=None, help="The year that is compared begins.  [default: now]"
        ),
        click.option("--timeout", type=options.Duration(), default="1d", show_default=True, help="Of each job."),
        click.option("--keep-going", is_flag=True, help="Leave broken lines out, as comments."),
        click.option("--force", is_flag=True, help="Write over files that are there."),
        click.option("--output-dir", metavar="DIR", type=click.Path(path_type=Path), help="Write a file for each job."),
        click.option("--output", "-o", metavar="FILE", type=click.Path(path_type=Path), help="Write one file."),
        click.option(
            "--tz", metavar="ZONE", default=None, help="Zone of cron's machine.  [default: as configured, UTC]"
        ),
        click.option("--system", is_flag=True, help="Entries name a user, as in /etc/crontab and /etc/cron.d."),
    ):
        function = option(function)
    return function


@command.command()
@click.argument("file", metavar="FILE")
@_options
@options.config
def crontab(file: str, output: Path | None, output_dir: Path | None, **asked: Any) -> int:
    """Write a job for each entry of the crontab FILE (`-`: standard input), and prove that both fire alike.

    What cannot be carried over stands as a comment above the job. Nothing is written while a line is wrong.

    \b
    Examples:
      reconciler import crontab etl.crontab --tz Europe/Berlin
      reconciler import crontab /etc/crontab --system --output-dir jobs.d/from-cron
      reconciler import crontab - --keep-going --output jobs.d/etl.yaml
    """
    if output is not None and output_dir is not None:
        raise UsageError("name --output or --output-dir, not both")
    settings = load()
    zone = _zone(asked["tz"] or settings.time_zone)
    now_us = SystemClock().now_us() if asked["now"] is None else options.instant(asked["now"])
    name = "standard-input" if file == _STDIN else shown(file)
    read = read_crontab(name, _content(file, settings.limits), system=asked["system"], zone=zone)
    if read.problems:
        _report(read)
        if not asked["keep_going"]:
            click.echo("error: nothing is written; --keep-going writes the other lines", err=True)
            return Exit.INVALID
    pages = pages_of(read, zone=zone, timeout=duration(asked["timeout"]))
    if not pages.jobs:
        for line in pages.left_out:
            click.echo(f"{name}:{line.line}: {line.why}", err=True)
        nothing = "" if pages.left_out else " (it holds no entry)"
        click.echo(f"error: no job can be made of {name}{nothing}, so nothing is written", err=True)
        return Exit.INVALID
    texts = _texts(pages, output, output_dir)
    tree = _tree(texts, settings.limits)
    if not is_valid(tree):
        click.echo(as_text(tree), err=True)
        click.echo("error: what would be written is not valid, so nothing is; the frames above cite it", err=True)
        return Exit.INVALID
    if not _proved(pages, tree, now_us):
        click.echo("error: fire times differ, so nothing is written", err=True)
        return Exit.INVALID
    _write(texts, force=asked["force"])
    return Exit.DONE


def _zone(name: str) -> str:
    try:
        load_zone(name)
    except TimingError as fault:
        raise UsageError(f"--tz: {fault}") from fault
    return name


def _content(file: str, limits: Limits) -> bytes:
    """Read the crontab, up to the limit of a definition file. Raises RefusedError."""
    try:
        content = (
            sys.stdin.buffer.read(limits.file_bytes + 1) if file == _STDIN else single(file, limits).contents[0].content
        )
    except (SourceUnavailableError, OSError) as fault:
        raise RefusedError(str(fault)) from fault
    if len(content) > limits.file_bytes:
        raise RefusedError(f"{shown(file)} has more than {count(limits.file_bytes, 'byte')}: split it")
    return content


def _report(read: Crontab) -> None:
    """Show what is wrong with lines, with what looks like a secret covered."""
    for problem in in_order(read.problems):
        click.echo(f"{frame(problem, read.text)}\n", err=True)
    click.echo(f"{count(len(read.problems), 'error')} in {read.file}", err=True)


def _texts(pages: Pages, output: Path | None, output_dir: Path | None) -> Mapping[Path | None, str]:
    """Give what is to be written, by file; None is standard output."""
    if output_dir is None:
        return {output: pages.as_one()}
    return {output_dir / name: text for name, text in pages.by_file().items()}


def _tree(texts: Mapping[Path | None, str], limits: Limits) -> Tree:
    """Read what is to be written as `validate` would."""
    contents = [Content(str(path or "standard-output"), text.encode()) for path, text in texts.items()]
    return tree_of(Scan("", contents=contents), limits=limits)


def _proved(pages: Pages, tree: Tree, now_us: int) -> bool:
    """Compare a year of fire times of each job with the crontab's own fields, and say what came of it."""
    jobs = {each.declared.name: each.declared for each in tree.definitions if isinstance(each.declared, Job)}
    proofs = [(each, _proof(each, jobs[each.name], now_us)) for each in pages.jobs]
    for written, proof in proofs:
        for side, moment in (("crontab", proof.only_in_crontab), ("definition", proof.only_in_definition)):
            if moment is not None:
                what = f"{moment:%Y-%m-%d %H:%M} in {written.entry.zone} is in the {side} alone"
                click.echo(f"{written.name} (line {written.entry.line}): {what}", err=True)
    if is_equal := all(proof.holds for _, proof in proofs):
        equal, left_out = (
            sum(proof.equal for _, proof in proofs),
            max((proof.days_left_out for _, proof in proofs), default=0),
        )
        what = "fire times of a year (ten where it holds none) are those of the crontab's own fields"
        told = f"{count(len(proofs), 'job')}; {equal:,} {what}"
        apart = f" (without the {count(left_out, 'day')} on which the clocks change)" if left_out else ""
        click.echo(f"{told}{apart}", err=True)
    return is_equal


def _proof(written: Written, job: Job, now_us: int) -> Proof:
    """Compare a year, or where that holds no time of either, ten: 29 February comes at least once in them."""
    zone = load_zone(written.entry.zone)
    occurrences = compile_timing(job.triggers[0].timing, activated_us=now_us, seed=job.name)

    def over(days: int) -> Proof:
        span = Span(from_us(now_us).astimezone(zone).date(), days, zone)
        start, end = span.instants()
        fired = occurrences.between(to_us(start), to_us(end), limit=_MOST_SLOTS)
        return prove(written.entry.times, map(from_us, fired), span)

    proof = over(DAYS)
    return proof if proof.equal or not proof.holds else over(10 * DAYS)


def _write(texts: Mapping[Path | None, str], *, force: bool) -> None:
    """Write all files, or none when one of them is there already, or cannot be written. Raises RefusedError."""
    for path, text in texts.items():
        if path is None:
            click.echo(text, nl=False)
    files = {path: text for path, text in texts.items() if path is not None}
    try:
        _write_files(files, force=force)
    except OSError as fault:
        raise RefusedError(f"{fault.filename or 'a file'} cannot be written: {fault.strerror}") from fault


def _write_files(files: Mapping[Path, str], *, force: bool) -> None:
    there = [path for path in files if path.exists()]
    if there and not force:
        raise RefusedError(f"{there[0]} is there already: nothing is written; --force writes over it")
    if others := [path for path in there if not path.is_file()]:
        raise RefusedError(f"{others[0]} is no file: nothing is written")
    drafts = {path: path.with_name(f".{path.name}.new") for path in files}
    try:
        for path, draft in drafts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(files[path], encoding="utf-8")
        for path, draft in drafts.items():
            draft.replace(path)
            click.echo(f"wrote {path}", err=True)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
