"""`reconciler runs`: look at runs, wait for them, cancel them."""

from __future__ import annotations

import threading
from typing import Any, Final

import click

from reconciler.cli import options
from reconciler.cli import show as printed
from reconciler.cli.stores import actor, open_store
from reconciler.clock import SystemClock
from reconciler.errors import StoreUnavailableError, UsageError
from reconciler.model.run import RunState
from reconciler.store import queries, runs

_POLL_SECONDS: Final = 0.1


@click.group()
def command() -> None:
    r"""Look at runs, wait for them, cancel them.

    \b
    Examples:
      reconciler runs list --job daily-sales-report
      reconciler runs show 42
      reconciler runs logs 42
    """


@command.command(name="list")
@options.store
@options.output
@options.limit
@click.option("--job", default=None, help="Only runs of this job.")
@click.option("--state", "states", multiple=True, callback=options.split, help="Only these states (Pending, Failed …).")
def list_(store_url: str | None, output: str, limit: int, job: str | None, states: tuple[str, ...]) -> None:
    """List runs, the newest first."""
    print_runs(store_url, output, limit, job, states)


@command.command()
@click.argument("run_id", type=int)
@options.store
@options.output
def show(run_id: int, store_url: str | None, output: str) -> None:
    """Show one run with every attempt at it."""
    database = open_store(store_url)
    row, attempts = database.read(lambda tx: (queries.run_shown(tx, run_id), queries.attempts_of(tx, run_id)))
    value = {**printed.run(row), "attempts": [printed.attempt(each) for each in attempts]}
    if output != "table":
        printed.print_value({"formatVersion": printed.FORMAT_VERSION, **value}, output)
        return
    for key, field in printed.run(row).items():
        click.echo(f"{key:<12} {'-' if field is None else field}")
    for each in attempts:
        ended = f"{each.outcome}" + (f", exit code {each.exit_code}" if each.exit_code is not None else "")
        click.echo(f"\nattempt {each.attempt} (fence {each.fence}) on {each.node}: {ended}")
        if each.error:
            click.echo(f"  {each.error}")
        for line in each.output.splitlines():
            click.echo(f"  | {line}")


@command.command()
@click.argument("run_id", type=int)
@options.store
def logs(run_id: int, store_url: str | None) -> None:
    """Print what the run's attempts wrote."""
    database = open_store(store_url)
    row, attempts = database.read(lambda tx: (queries.run_shown(tx, run_id), queries.attempts_of(tx, run_id)))
    for each in attempts:
        click.echo(each.output, nl=not each.output.endswith("\n"))
    if not row.is_over:
        click.echo(f"run {run_id} is {row.state}: its output is stored when the attempt ends", err=True)


@command.command()
@click.argument("run_id", type=int)
@options.store
@click.option("--timeout", type=options.Duration(), default="1h", show_default=True, help="Give up after this time.")
def wait(run_id: int, store_url: str | None, timeout: float) -> int:
    """Wait until a run is over; exit 0 when it succeeded, 1 when it did not."""
    return wait_for(open_store(store_url), run_id, timeout)


@command.command()
@click.argument("run_id", type=int)
@options.store
def cancel(run_id: int, store_url: str | None) -> int:
    """Cancel a run: at once while it waits; a running one is stopped by its node."""
    state = open_store(store_url).tx(lambda tx: runs.cancel(tx, run_id, actor=actor()))
    match state:
        case None:
            click.echo(f"run {run_id} is already over", err=True)
            return 1
        case RunState.CANCELLED:
            click.echo(f"run {run_id} is cancelled")
        case _:
            click.echo(f"run {run_id} is running: its node was asked to stop it")
    return 0


def print_runs(store_url: str | None, output: str, limit: int, job: str | None, states: tuple[str, ...]) -> None:
    """Print a list of runs."""
    known = {str(state).lower(): state for state in RunState}
    if unknown := [state for state in states if state.lower() not in known]:
        raise UsageError(f"there is no state {unknown[0]!r}; there are {', '.join(RunState)}")
    wanted = [known[state.lower()] for state in states] or None
    found = open_store(store_url).read(lambda tx: queries.runs_listed(tx, limit=limit, job=job, states=wanted))
    printed.print_list(
        [printed.run(each) for each in found],
        output,
        ["id", "definition", "trigger", "slot", "state", "attempt", "fence", "node", "exitCode", "error"],
        empty="no runs",
    )


def wait_for(database: Any, run_id: int, timeout: float) -> int:
    """Wait for a run's end, say how it ended, give the exit code. Raises StoreUnavailableError when time is up."""
    clock, never = SystemClock(), threading.Event()
    give_up_at = clock.elapsed() + timeout
    while True:
        row = database.read(lambda tx: queries.run_shown(tx, run_id))
        if row.is_over:
            click.echo(f"run {run_id} of {row.definition}: {row.state}" + (f" ({row.error})" if row.error else ""))
            return 0 if row.state is RunState.SUCCEEDED else 1
        if clock.elapsed() >= give_up_at:
            raise StoreUnavailableError(f"run {run_id} is still {row.state} after {timeout:g} s; it goes on")
        clock.wait(never, _POLL_SECONDS)
