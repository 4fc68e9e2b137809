"""`reconciler pause` and `reconciler resume`: stop a job's triggers for a while, without touching its file."""

from __future__ import annotations

import click

from reconciler.cli import options
from reconciler.cli.stores import actor, open_store
from reconciler.clock import SECOND_US, iso
from reconciler.errors import UsageError
from reconciler.store import pauses
from reconciler.store.database import Tx
from reconciler.words import count


@click.command()
@click.argument("job")
@options.store
@click.option("--reason", default="", metavar="TEXT", help="Why; it stands in the ledger beside each slot.")
@click.option("--for", "lasts", type=options.Duration(), default=None, help="End by itself after this long, like 2h.")
@click.option("--until", default=None, metavar="INSTANT", help="End by itself then, like 2026-12-31T23:00:00Z.")
def pause(job: str, store_url: str | None, reason: str, lasts: float | None, until: str | None) -> None:
    """Stop the triggers of JOB. Slots that pass are recorded; `reconciler trigger` still runs it by hand.

    A commit does not end a pause, whatever becomes of the job's file. Runs that are due or running go on.

    \b
    Examples:
      reconciler pause daily-sales-report --reason "the mart is being rebuilt" --for 2h
      reconciler pause daily-sales-report --until 2026-12-31T23:00:00Z
    """
    if lasts is not None and until is not None:
        raise UsageError("--for and --until exclude each other: keep one")
    end_us = None if until is None else options.instant(until)
    database = open_store(store_url)

    def stop(tx: Tx) -> tuple[pauses.Paused, int | None]:
        until_us = end_us if lasts is None else tx.now_us() + round(lasts * SECOND_US)
        return pauses.pause(tx, job, actor=actor(), reason=reason, until_us=until_us), until_us

    met, until_us = database.tx(stop)
    click.echo(f"paused {job} {'until somebody resumes it' if until_us is None else f'until {iso(until_us)}'}")
    if met.waiting or met.running:
        click.echo(
            f"{count(met.waiting, 'waiting run')} and {count(met.running, 'running one')} go on; "
            "`reconciler runs cancel ID` ends one",
            err=True,
        )


@click.command()
@click.argument("job")
@options.store
@click.option("--catch-up", is_flag=True, help="Run what the misfire policies allow of the slots that passed.")
def resume(job: str, store_url: str | None, catch_up: bool) -> None:
    """Let the triggers of JOB fire again, from now on.

    \b
    Examples:
      reconciler resume daily-sales-report
      reconciler resume daily-sales-report --catch-up
    """
    open_store(store_url).tx(lambda tx: pauses.resume(tx, job, actor=actor(), catch_up=catch_up))
    click.echo(f"resumed {job}" + ("; the leader catches up with what it may" if catch_up else ""))
