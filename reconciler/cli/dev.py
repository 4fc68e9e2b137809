"""`reconciler dev`: leader, worker and store on this machine, to try things out."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from reconciler.cli import alone, devnodes, killdemo, options
from reconciler.cli.devnodes import NodePlan
from reconciler.cli.init import write_examples
from reconciler.cli.settings import load
from reconciler.cli.stores import open_store
from reconciler.cli.watched import Watched
from reconciler.cli.wiring import LeaderProcess, misfire_of, source_of
from reconciler.clock import SECOND_US, from_us
from reconciler.config import Config
from reconciler.errors import Problem, StoreUnavailableError
from reconciler.model.lease import Timings
from reconciler.model.run import RunState
from reconciler.reconcile.apply import PassEnded, PassRefused, Source
from reconciler.spec.load import SourceUnavailableError
from reconciler.spec.report import one_line
from reconciler.store import definitions, queries
from reconciler.store.database import Database
from reconciler.store.queries import RunRow
from reconciler.telemetry import Event, subscribe
from reconciler.telemetry.log import log_events
from reconciler.words import count

_TIMINGS: Final = Timings(lease_seconds=10, heartbeat_seconds=2, leader_ttl_seconds=3, rescan_seconds=2)
"""Shorter than in production: a killed `dev` is followed by the next one at once, an edit acts within seconds."""
_POLL_SECONDS: Final = 0.25
_GREETED: Final = 8
_SHOWN_PROBLEMS: Final = 5
_MARKS: Final = {RunState.SUCCEEDED: "✓", RunState.FAILED: "✗", RunState.TIMED_OUT: "✗", RunState.DEAD_LETTERED: "✗"}
_NOTICE: Final = """\
┌────────────────────────────────────────────────────────────────┐
│ reconciler dev: everything on this machine, not for production │
└────────────────────────────────────────────────────────────────┘"""


@click.command()
@click.argument("path", type=click.Path(path_type=Path, file_okay=False), required=False)
@options.config
@click.option(
    "--state",
    "state",
    type=click.Path(path_type=Path, file_okay=False),
    default=options.STATE_FOLDER,
    show_default=True,
    help="Folder of the store and of the node's data.",
)
@click.option("--nodes", type=click.IntRange(1, 20), default=1, show_default=True, help="How many workers.")
@click.option("--slots", type=click.IntRange(1, 100), default=4, show_default=True, help="Runs at a time, on each.")
@click.option(
    "--allow",
    multiple=True,
    metavar="PROGRAM",
    help=f"Admit another program for `command` jobs, besides {', '.join(devnodes.ALLOWED)}.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show every event, not only runs.")
@click.option(
    "--kill-demo", is_flag=True, help="Show how a stalled worker's run is taken over, and its late result refused."
)
def command(
    path: Path | None,
    state: Path,
    nodes: int,
    slots: int,
    allow: tuple[str, ...],
    verbose: bool,
    kill_demo: bool,
) -> int:
    """Run leader, worker and an SQLite store over PATH (default: the configured sources, jobs.d).

    Examples are written where PATH is missing. Of reconciler.yaml only what concerns definitions acts: never its store.

    \b
    Examples:
      reconciler dev
      reconciler dev /srv/northstar/jobs.d --allow /usr/bin/rsync
      reconciler dev --nodes 3
      reconciler dev --kill-demo      half a minute, in a folder of its own
    """
    if kill_demo:
        return killdemo.play()
    settings = load()
    sources = [source_of(settings, each, moved=True) for each in settings.sources(path, None)]
    if not sources[0].path.exists() and "sources" not in settings.given:
        write_examples(sources[0].path)
        click.echo(f"wrote example definitions to {sources[0].path}")
    state.mkdir(parents=True, exist_ok=True)
    held = alone.hold(state / "dev.lock")
    url = f"sqlite:///{(state / 'store.db').absolute()}"
    database = open_store(url, create=True)
    if verbose:
        log_events()
    else:
        subscribe(partial(_tell_of_files, sources))
    click.echo(_NOTICE)
    paths = ", ".join(str(each.path) for each in sources)
    click.echo(f"definitions  {paths}\nstore        {state / 'store.db'}\ndata         {state / 'data'}")
    watched = Watched.leader(Config(), database, _TIMINGS, or_any=True)
    leader = LeaderProcess(database, sources, timings=_TIMINGS, misfire=misfire_of(settings))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leader.request_stop())
    plan = NodePlan(url, state / "data", _TIMINGS, slots, allow, quiet=not verbose)
    workers = {name: plan.start(name) for name in devnodes.names_of(nodes)}
    leader.start()
    metrics, health = watched.start()
    click.echo(f"metrics      {metrics}\nhealth       {health}\n")
    try:
        return _watch(database, leader, workers)
    finally:
        leader.stop()
        devnodes.stop(list(workers.values()))
        watched.close()
        database.close()
        held.close()
        click.echo(f"stopped: everything it keeps is in {state}, and the next `reconciler dev` goes on with it")


def _tell_of_files(sources: Sequence[Source], event: Event) -> None:
    """Say what a pass over the files did, or why it did not, with the first problems and their places."""
    match event:
        case PassEnded():
            click.echo(f"files applied: {event.created} new, {event.updated} changed, {event.pruned} removed")
        case PassRefused():
            reason = event.reason or "what is broken keeps its last good version"
            found = f", {count(event.problems, 'problem')}" if event.problems else ""
            click.echo(f"files {event.state.lower()}{found}: {reason}", err=True)
            source = next(each for each in sources if each.name == event.source)
            for problem in _problems(source)[:_SHOWN_PROBLEMS]:
                click.echo(f"  {one_line(problem)}", err=True)
            if event.problems:
                click.echo(f"  all of them: reconciler validate {source.path}", err=True)
        case _:
            return


def _problems(source: Source) -> Sequence[Problem]:
    try:
        return source.load().problems
    except SourceUnavailableError:
        return ()


def _watch(database: Database, leader: LeaderProcess, workers: Mapping[str, subprocess.Popen[bytes]]) -> int:
    """Print runs as they finish, until told to stop or a worker is gone."""
    since_us = database.read(lambda tx: tx.now_us())
    seen: set[int] = set()
    greeted = False
    while not leader.wait(_POLL_SECONDS):
        for name, worker in workers.items():
            if worker.poll() is not None:
                raise StoreUnavailableError(f"worker {name} ended with exit code {worker.returncode}; try --verbose")
        greeted = greeted or _greet(database)
        rows = database.read(partial(queries.finished_since, since_us=since_us, limit=500))
        for row in rows:
            if row.id not in seen:
                seen.add(row.id)
                click.echo(_line(database, row, with_node=len(workers) > 1))
        if rows:
            newest_us = max(row.finished_us or 0 for row in rows)
            since_us = newest_us
            seen = {row.id for row in rows if row.finished_us == newest_us}
    click.echo("stopping: running jobs may finish …")
    return 0


def _greet(database: Database) -> bool:
    """Say once what was loaded and what to try; False while nothing is."""
    found = database.read(lambda tx: definitions.listed(tx, limit=1000))
    if not found:
        return False
    names = ", ".join(each.name for each in found[:_GREETED]) + (", …" if len(found) > _GREETED else "")
    click.echo(f"{count(len(found), 'job')} loaded: {names}")
    click.echo("try next, in another terminal:")
    click.echo(f"  reconciler get jobs\n  reconciler trigger {found[0].name} --wait\n  reconciler status --watch\n")
    return True


def _line(database: Database, row: RunRow, *, with_node: bool) -> str:
    attempts = database.read(lambda tx: queries.attempts_of(tx, row.id))
    written = attempts[-1].output.strip().splitlines() if attempts else []
    said = row.error or (written[-1] if written else "")
    finished = from_us(row.finished_us or 0).strftime("%H:%M:%S")
    took = f"{((row.finished_us or 0) - row.started_us) / SECOND_US:.2f} s" if row.started_us else "-"
    mark = _MARKS.get(row.state, "·")
    where = f"{row.node or '-':<7} " if with_node else ""
    return f"{finished}  {mark} run {row.id:<5} {where}{row.definition:<28} {row.state:<12} {took:>8}  {said}"
