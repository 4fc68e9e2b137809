"""`reconciler worker`: a node that claims and executes runs."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.settings import load
from reconciler.cli.stores import open_store
from reconciler.cli.watched import Listening, Watched
from reconciler.telemetry import emit
from reconciler.telemetry.log import log_events
from reconciler.worker.allow import WORKER
from reconciler.worker.loop import Worker
from reconciler.worker.options import WorkerOptions
from reconciler.worker.run import run_worker


@click.command()
@options.store
@click.option("--node-id", default=None, metavar="NAME", help="Name people see.  [default: this host's name]")
@click.option("--queues", multiple=True, callback=options.split, metavar="A,B", help="Claim only from these queues.")
@click.option("--tags", multiple=True, callback=options.split, metavar="A,B", help="What this node offers.")
@click.option("--slots", type=click.IntRange(1, 1000), default=None, help="Runs at the same time.  [default: 4]")
@click.option("--allow", multiple=True, metavar="PROGRAM", help="Admit a program for `command` jobs.  [default: none]")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="The node's data folder.  [default: .reconciler/data]",
)
@click.option(
    "--drain-timeout",
    type=options.Duration(),
    default=None,
    help="How long a stopping worker lets its runs go on before it hands them back.  [default: 30s]",
)
@click.option("--ends-with", type=int, default=None, hidden=True, help="Drain when this parent process dies.")
@click.option("--started-by", default=WORKER, hidden=True, help="What a person starts to have it, for messages.")
@click.option("--quiet", is_flag=True, help="Log warnings and errors only.")
@click.option("--lease", type=options.Duration(), help="How long a lease holds.  [default: 30s]")
@click.option("--heartbeat", type=options.Duration(), help="How often it is renewed.  [default: 5s]")
@options.metrics("127.0.0.1:5019")
def command(
    store_url: str | None,
    node_id: str | None,
    queues: tuple[str, ...],
    tags: tuple[str, ...],
    slots: int | None,
    allow: tuple[str, ...],
    data: Path | None,
    drain_timeout: float | None,
    lease: float | None,
    heartbeat: float | None,
    quiet: bool,
    metrics: str | None,
    ends_with: int | None,
    started_by: str,
) -> int:
    """Claim runs and execute them on this node. SIGTERM drains: nothing new, running work finishes.

    \b
    Examples:
      reconciler worker --store postgresql://db/reconciler --node-id etl-1 --queues etl
      reconciler worker --allow /usr/bin/rsync --allow northstar-report --slots 8
    """
    flags = {
        "node.name": node_id,
        "node.queues": queues,
        "node.tags": tags,
        "node.slots": slots,
        "node.data": data,
        "node.drainTimeout": drain_timeout,
        "worker.allow": allow,
        "timings.lease": lease,
        "timings.heartbeat": heartbeat,
        "metrics.worker": metrics,
    }
    settings = load(flags, listens=["metrics.worker"])
    node = settings.config.node
    name = node.name or socket.gethostname()
    database = open_store(store_url)
    database.close()
    log_events(node=name, level=logging.WARNING if quiet else logging.INFO)
    watched = Watched.worker(settings.config)  # before the guard: a taken port is told while nothing runs
    chosen = WorkerOptions(
        name=name,
        store_url=database.url.render_as_string(hide_password=False),
        queues=node.queues,
        tags=node.tags,
        slots=node.slots,
        allow=settings.config.worker.allow,
        data=Path(node.data).absolute(),
        drain_timeout_seconds=node.drain_timeout_seconds,
        timings=settings.timings,
        ends_with=ends_with,
        command=started_by,
        environment=dict(os.environ),
    )

    def show(worker: Worker) -> None:
        watched.of_worker(lambda: worker.jobs)
        emit(Listening(watched.start()))

    try:
        return run_worker(chosen, started=show)
    finally:
        watched.close()
