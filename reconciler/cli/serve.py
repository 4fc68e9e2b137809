"""`reconciler serve`: a leader candidate."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.stores import open_store
from reconciler.cli.wiring import LeaderProcess
from reconciler.model.lease import Timings
from reconciler.reconcile.apply import Source
from reconciler.store.dialect import Limits
from reconciler.telemetry.log import log_events


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("jobs.d"))
@options.store
@click.option("--source", "source_name", default=options.DEFAULT_SOURCE, show_default=True, help="Name of the source.")
@click.option("--source-moved", is_flag=True, help="PATH replaces the path this source was applied from before.")
@click.option("--leader-ttl", type=options.Duration(), default="15s", show_default=True, help="How long a term holds.")
@click.option("--rescan", type=options.Duration(), default="30s", show_default=True, help="How often PATH is read.")
def command(
    path: Path, store_url: str | None, source_name: str, source_moved: bool, leader_ttl: float, rescan: float
) -> None:
    """Run a leader candidate over PATH (default jobs.d); any number may run, one leads.

    \b
    Examples:
      reconciler serve --store postgresql://db/reconciler
      reconciler serve /etc/northstar/jobs.d --store sqlite:////var/lib/reconciler/store.db
    """
    timings = Timings(leader_ttl_seconds=leader_ttl, rescan_seconds=rescan)
    database = open_store(store_url, limits=Limits(stall_seconds=timings.stall_seconds))
    log_events()
    process = LeaderProcess(database, Source(source_name, path, moved=source_moved), timings=timings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: process.request_stop())
    process.start()
    while not process.wait(3600):
        pass
    process.stop()
    database.close()
