"""`reconciler serve`: a leader candidate."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.settings import load
from reconciler.cli.stores import open_store
from reconciler.cli.watched import Listening, Watched
from reconciler.cli.wiring import LeaderProcess, misfire_of, source_of
from reconciler.errors import RefusedError
from reconciler.spec.files import SourceUnavailableError, find
from reconciler.store.dialect import Limits
from reconciler.telemetry import emit
from reconciler.telemetry.log import log_events


@click.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@options.store
@click.option("--source", "source_name", metavar="NAME", default=None, help=options.SOURCE_HELP)
@click.option("--source-moved", is_flag=True, help="PATH replaces the path this source was applied from before.")
@click.option("--leader-ttl", type=options.Duration(), help="How long a term holds.  [default: 15s]")
@click.option("--rescan", type=options.Duration(), help="How often PATH is read.  [default: 30s]")
@options.metrics("127.0.0.1:5018")
@click.option(
    "--listen", metavar="HOST:PORT", help="Where /health answers; port 0: any, or off.  [default: 127.0.0.1:5017]"
)
def command(
    path: Path | None,
    store_url: str | None,
    source_name: str | None,
    source_moved: bool,
    leader_ttl: float | None,
    rescan: float | None,
    metrics: str | None,
    listen: str | None,
) -> None:
    """Run a leader candidate over PATH (default: the configured sources, jobs.d); any number may run, one leads.

    \b
    Examples:
      reconciler serve --store postgresql://db/reconciler
      reconciler serve /etc/northstar/jobs.d --store sqlite:////var/lib/reconciler/store.db
    """
    settings = load(
        {"timings.leaderTtl": leader_ttl, "timings.rescan": rescan, "metrics.serve": metrics, "api.listen": listen},
        listens=["metrics.serve"],
    )
    timings = settings.timings
    sources = [source_of(settings, each, moved=source_moved) for each in settings.sources(path, source_name)]
    try:
        for each in sources:
            find(each.path)
    except SourceUnavailableError as fault:
        raise RefusedError(fault.refusal) from fault
    database = open_store(store_url, limits=Limits(stall_seconds=timings.stall_seconds))
    log_events()
    watched = Watched.leader(settings.config, database, timings)
    process = LeaderProcess(
        database,
        sources,
        timings=timings,
        misfire=misfire_of(settings),
        max_running=settings.config.limits.max_running,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: process.request_stop())
    emit(process.introduced())
    process.start()
    emit(Listening(watched.start()))
    while not process.wait(3600):
        pass
    process.stop()
    watched.close()
    database.close()
