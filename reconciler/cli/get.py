"""`reconciler get`: lists of what the store holds."""

from __future__ import annotations

import click

from reconciler.cli import calendars as calendar_views
from reconciler.cli import options, show
from reconciler.cli.runs import print_runs
from reconciler.cli.stores import open_store
from reconciler.store import definitions, nodes, overview, pauses, queries, queue_views
from reconciler.store import passes as stored
from reconciler.store.database import Tx
from reconciler.store.definitions import StoredDefinition


@click.group()
def command() -> None:
    """List jobs, runs, workers, queues, calendars, passes, skipped slots or dead letters.

    \b
    Examples:
      reconciler get jobs
      reconciler get queues --watch
      reconciler get slots --job daily-sales-report -o json
    """


@command.command()
@options.store
@options.output
@options.limit
@options.watch
def jobs(store_url: str | None, output: str, limit: int, watch: bool) -> None:
    """List the live definitions and when each fires next.

    \b
    Examples:
      reconciler get jobs
      reconciler get jobs --watch
    """
    database = open_store(store_url)
    show.show_list(
        lambda: database.read(lambda tx: job_rows(tx, definitions.listed(tx, limit=limit))),
        output,
        ["name", "generation", "suspended", "paused", "queue", "nextFireTime", "lastRun", "conditions", "file", "line"],
        empty="no jobs yet: commit some to jobs.d and run `reconciler reconcile jobs.d`",
        watch=watch,
    )


@command.command()
@options.store
@options.output
@options.limit
@options.watch
@click.option("--job", default=None, help="Only runs of this job.")
@click.option("--state", "states", multiple=True, callback=options.split, help="Only these states (Pending, Failed …).")
def runs(store_url: str | None, output: str, limit: int, watch: bool, job: str | None, states: tuple[str, ...]) -> None:
    """List runs, the newest first.

    \b
    Examples:
      reconciler get runs --limit 10
      reconciler get runs -o json
    """
    print_runs(store_url, output, limit, job, states, watch=watch)


@command.command()
@options.store
@options.output
@options.limit
@options.watch
@click.option("--all", "with_dead", is_flag=True, help="Sessions that are over, too.")
def workers(store_url: str | None, output: str, limit: int, watch: bool, with_dead: bool) -> None:
    """List the sessions of worker nodes.

    \b
    Examples:
      reconciler get workers --watch
    """
    database = open_store(store_url)

    def ask(tx: Tx) -> list[show.Row]:
        held = overview.held_by_node(tx)
        return [show.node(each, held.get(each.id, 0)) for each in nodes.listed(tx, limit=limit, with_dead=with_dead)]

    show.show_list(
        lambda: database.read(ask),
        output,
        ["id", "name", "state", "host", "pid", "queues", "slots", "running", "leaseUntil"],
        empty="no workers: start one with `reconciler worker`",
        watch=watch,
    )


@command.command()
@options.store
@options.output
@options.watch
def queues(store_url: str | None, output: str, watch: bool) -> None:
    """List every queue that is declared, or that a job, a run or a worker names; `*` is all of them together.

    \b
    Examples:
      reconciler get queues --watch
    """
    database = open_store(store_url)

    def ask(tx: Tx) -> list[show.Row]:
        now_us = tx.now_us()
        return [show.queue(each, now_us) for each in queue_views.listed(tx)]

    show.show_list(
        lambda: database.read(ask),
        output,
        ["name", "jobs", "waiting", "running", "max", "suspended", "oldestAgeSeconds", "slots", "workers", "unserved"],
        empty="no queues: neither a job nor a worker names one",
        watch=watch,
    )


@command.command()
@options.store
@options.output
@options.watch
def calendars(store_url: str | None, output: str, watch: bool) -> None:
    """List the calendars: open or closed now, until when, and which jobs mind them.

    \b
    Examples:
      reconciler get calendars
      reconciler get calendars -o json
    """
    database = open_store(store_url)
    show.show_list(
        lambda: database.read(calendar_views.rows),
        output,
        calendar_views.COLUMNS,
        empty="no calendars: jobs.d declares none",
        watch=watch,
    )


@command.command()
@options.store
@options.output
@options.limit
@options.watch
def passes(store_url: str | None, output: str, limit: int, watch: bool) -> None:
    """List reconcile passes, the newest first.

    \b
    Examples:
      reconciler get passes --limit 5
    """
    database = open_store(store_url)
    show.show_list(
        lambda: [show.reconcile_pass(each) for each in database.read(lambda tx: stored.listed(tx, limit=limit))],
        output,
        ["id", "source", "state", "requestedBy", "finishedAt", "revision", "deletionDigest"],
        empty="no pass yet: `reconciler serve` or `reconciler reconcile` makes one",
        watch=watch,
    )


@command.command()
@options.store
@options.output
@options.limit
@options.watch
@click.option("--job", default=None, help="Only slots of this job.")
def slots(store_url: str | None, output: str, limit: int, watch: bool, job: str | None) -> None:
    """List slots that did not become runs, and why.

    \b
    Examples:
      reconciler get slots
      reconciler get slots --job daily-sales-report --limit 500 -o json
    """
    database = open_store(store_url)
    show.show_list(
        lambda: [show.slot(each) for each in database.read(lambda tx: queries.skipped_slots(tx, limit=limit, job=job))],
        output,
        ["definition", "trigger", "slot", "reason", "detail", "recordedBy"],
        empty="no slot was skipped",
        watch=watch,
    )


@command.command(name="dead-letters")
@options.store
@options.output
@options.limit
@options.watch
@click.option("--job", default=None, help="Only runs of this job.")
def dead_letters(store_url: str | None, output: str, limit: int, watch: bool, job: str | None) -> None:
    """List runs that were given up: attempts used up, or too many leases lost.

    \b
    Examples:
      reconciler get dead-letters --job daily-sales-report
    """
    database = open_store(store_url)
    show.show_list(
        lambda: [
            show.dead_letter(each) for each in database.read(lambda tx: queries.dead_letters(tx, limit=limit, job=job))
        ],
        output,
        ["run", "definition", "reason", "lastOutcome", "parkedAt", "error"],
        empty="no dead letters",
        watch=watch,
    )


def job_rows(tx: Tx, found: list[StoredDefinition]) -> list[show.Row]:
    """Show definitions with what they did last and when they fire next."""
    ids = [each.id for each in found]
    fires: dict[int, int] = {}
    for trigger in definitions.triggers_of(tx, ids):
        if trigger.next_fire_us is not None:
            earliest_us = fires.get(trigger.definition_id, trigger.next_fire_us)
            fires[trigger.definition_id] = min(earliest_us, trigger.next_fire_us)
    records = overview.records_of(tx, ids)
    paused = {each.job: each for each in pauses.listed(tx)}
    return [show.definition(each, fires.get(each.id), records[each.id], paused.get(each.name)) for each in found]
