"""`reconciler get`: lists of what the store holds."""

from __future__ import annotations

from collections.abc import Sequence

import click

from reconciler.cli import options, show
from reconciler.cli.runs import print_runs
from reconciler.cli.stores import open_store
from reconciler.store import definitions, nodes, queries
from reconciler.store import passes as stored
from reconciler.store.database import Tx
from reconciler.store.definitions import StoredTrigger


@click.group()
def command() -> None:
    """List jobs, runs, workers, passes, skipped slots or dead letters.

    \b
    Examples:
      reconciler get jobs
      reconciler get slots --job daily-sales-report -o json
    """


@command.command()
@options.store
@options.output
@options.limit
def jobs(store_url: str | None, output: str, limit: int) -> None:
    """List the live definitions and when each fires next."""

    def ask(tx: Tx) -> list[show.Row]:
        found = definitions.listed(tx, limit=limit)
        triggers = definitions.triggers_of(tx, [each.id for each in found])
        return [show.definition(each, _next_fire(triggers, each.id)) for each in found]

    database = open_store(store_url)
    show.print_list(
        database.read(ask),
        output,
        ["name", "generation", "suspended", "queue", "nextFireTime", "condition", "file", "line"],
        empty="no jobs yet: commit some to jobs.d and run `reconciler reconcile jobs.d`",
    )


@command.command()
@options.store
@options.output
@options.limit
@click.option("--job", default=None, help="Only runs of this job.")
@click.option("--state", "states", multiple=True, callback=options.split, help="Only these states (Pending, Failed …).")
def runs(store_url: str | None, output: str, limit: int, job: str | None, states: tuple[str, ...]) -> None:
    """List runs, the newest first."""
    print_runs(store_url, output, limit, job, states)


@command.command()
@options.store
@options.output
@options.limit
@click.option("--all", "with_dead", is_flag=True, help="Sessions that are over, too.")
def workers(store_url: str | None, output: str, limit: int, with_dead: bool) -> None:
    """List the sessions of worker nodes."""
    found = open_store(store_url).read(lambda tx: nodes.listed(tx, limit=limit, with_dead=with_dead))
    show.print_list(
        [show.node(each) for each in found],
        output,
        ["id", "name", "state", "host", "pid", "queues", "slots", "leaseUntil"],
        empty="no workers: start one with `reconciler worker`",
    )


@command.command()
@options.store
@options.output
@options.limit
def passes(store_url: str | None, output: str, limit: int) -> None:
    """List reconcile passes, the newest first."""
    found = open_store(store_url).read(lambda tx: stored.listed(tx, limit=limit))
    show.print_list(
        [show.reconcile_pass(each) for each in found],
        output,
        ["id", "source", "state", "requestedBy", "finishedAt", "revision", "deletionDigest"],
        empty="no pass yet: `reconciler serve` or `reconciler reconcile` makes one",
    )


@command.command()
@options.store
@options.output
@options.limit
@click.option("--job", default=None, help="Only slots of this job.")
def slots(store_url: str | None, output: str, limit: int, job: str | None) -> None:
    """List slots that did not become runs, and why."""
    found = open_store(store_url).read(lambda tx: queries.skipped_slots(tx, limit=limit, job=job))
    show.print_list(
        [show.slot(each) for each in found],
        output,
        ["definition", "trigger", "slot", "reason", "recordedBy"],
        empty="no slot was skipped",
    )


@command.command(name="dead-letters")
@options.store
@options.output
@options.limit
@click.option("--job", default=None, help="Only runs of this job.")
def dead_letters(store_url: str | None, output: str, limit: int, job: str | None) -> None:
    """List runs that were given up: attempts used up, or too many leases lost."""
    found = open_store(store_url).read(lambda tx: queries.dead_letters(tx, limit=limit, job=job))
    show.print_list(
        [show.dead_letter(each) for each in found],
        output,
        ["run", "definition", "reason", "lastOutcome", "parkedAt", "error"],
        empty="no dead letters",
    )


def _next_fire(triggers: Sequence[StoredTrigger], definition_id: int) -> int | None:
    fires = [
        each.next_fire_us for each in triggers if each.definition_id == definition_id and each.next_fire_us is not None
    ]
    return min(fires, default=None)
