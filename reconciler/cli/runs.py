"""`reconciler runs`: look at runs, wait for them, cancel them."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import click

from reconciler.cli import options, tables
from reconciler.cli import show as printed
from reconciler.cli.runlog import RunLog
from reconciler.cli.stores import actor, open_store
from reconciler.clock import SystemClock, iso
from reconciler.errors import StoreUnavailableError, UsageError
from reconciler.model.log import OutputStream
from reconciler.model.run import RunState
from reconciler.store import definitions, nodes, queries, queue_views, runs
from reconciler.store.database import Tx
from reconciler.store.logs import LogRow, lines_of

_POLL_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 2.0
"""After this time of waiting people want to know what for."""
_NOT_FACTS: Final = frozenset({"formatVersion", "output", "attempts"})


@click.group()
def command() -> None:
    """Look at runs, wait for them, cancel them.

    \b
    Examples:
      reconciler runs list --job daily-sales-report
      reconciler runs show 42
      reconciler runs logs 42 --follow
    """


@command.command(name="list")
@options.store
@options.output
@options.limit
@options.watch
@click.option("--job", default=None, help="Only runs of this job.")
@click.option("--state", "states", multiple=True, callback=options.split, help="Only these states (Pending, Failed …).")
def list_(
    store_url: str | None, output: str, limit: int, watch: bool, job: str | None, states: tuple[str, ...]
) -> None:
    """List runs, the newest first.

    \b
    Examples:
      reconciler runs list --state Failed
      reconciler runs list --job daily-sales-report --watch
    """
    print_runs(store_url, output, limit, job, states, watch=watch)


@command.command()
@click.argument("run_id", type=options.RUN_ID)
@options.store
@options.output
def show(run_id: int, store_url: str | None, output: str) -> None:
    """Show one run with every attempt at it.

    \b
    Examples:
      reconciler runs show 42
      reconciler runs show 42 -o json
    """
    print_run(store_url, output, run_id)


@command.command()
@click.argument("run_id", type=options.RUN_ID)
@options.store
@click.option("--follow", "-f", is_flag=True, help="Go on until the run is over.")
@click.option("--attempt", type=click.IntRange(min=1), default=None, help="Only lines of this attempt.")
@click.option("--stream", type=click.Choice(list(map(str, OutputStream))), default=None, help="Only lines of this one.")
@click.option("--timestamps", is_flag=True, help="Print before each line when it was read.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="The lines as they are, or a JSON object for each: time, node, attempt, stream, text.",
)
def logs(
    run_id: int,
    store_url: str | None,
    follow: bool,
    attempt: int | None,
    stream: str | None,
    timestamps: bool,
    output: str,
) -> None:
    """Print what the run's attempts wrote, line by line; where there are several, a heading of each on stderr.

    \b
    Examples:
      reconciler runs logs 42 --follow
      reconciler runs logs 42 --attempt 2 --stream stderr --timestamps
      reconciler runs logs 42 -o json | jq -r .text
    """

    def shown(line: LogRow) -> str:
        if output == "json":
            return json.dumps(printed.log_line(line), ensure_ascii=False)
        return f"{iso(line.at_us)} {line.text}" if timestamps else line.text

    wanted = None if stream is None else OutputStream(stream)
    log = RunLog(open_store(store_url), run_id, attempt=attempt, stream=wanted)
    row = log.print(shown, follow=follow, with_headings=output == "table" and attempt is None)
    if not row.is_over:
        click.echo(f"run {run_id} is {row.state}: there may be more to come (--follow)", err=True)
    elif log.is_empty:
        click.echo(f"run {run_id} wrote nothing" + (" there" if attempt or stream else ""), err=True)


@command.command()
@click.argument("run_id", type=options.RUN_ID)
@options.store
@click.option("--timeout", type=options.Duration(), default="1h", show_default=True, help="Give up after this time.")
def wait(run_id: int, store_url: str | None, timeout: float) -> int:
    """Wait until a run is over; exit 0 when it succeeded, 1 when it did not.

    \b
    Examples:
      reconciler runs wait 42 --timeout 10m
    """
    return wait_for(open_store(store_url), run_id, timeout)


@command.command()
@click.argument("run_id", type=options.RUN_ID)
@options.store
def cancel(run_id: int, store_url: str | None) -> int:
    """Cancel a run: at once while it waits; a running one is stopped by its node.

    \b
    Examples:
      reconciler runs cancel 42
    """
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


def why_waiting(tx: Tx, row: queries.RunRow) -> str | None:
    """Say why a run waits, where it is plain to see; None where it is not."""
    if row.state is not RunState.PENDING:
        return None
    if why := queue_views.why_closed(queue_views.listed(tx), row.queue):
        return why
    if not nodes.serves(tx, queue=row.queue, handler=row.handler):
        return f"no living worker serves queue {row.queue!r} with handler {row.handler!r}: `reconciler get workers`"
    return None


def print_run(store_url: str | None, output: str, run_id: int, *, watch: bool = False) -> None:
    """Print one run with every attempt at it."""
    database = open_store(store_url)

    def ask(tx: Tx) -> dict[str, Any]:
        row = queries.run_shown(tx, run_id)
        attempts = [printed.attempt(each) for each in queries.attempts_of(tx, run_id)]
        return {
            "formatVersion": printed.FORMAT_VERSION,
            **printed.run(row),
            "reason": row.reason or why_waiting(tx, row),
            "output": attempts[-1]["output"] if attempts else None,
            "attempts": attempts,
        }

    printed.show_value(lambda: database.read(ask), _run_text, output, watch=watch)


def _run_text(value: dict[str, Any]) -> str:
    parts = [tables.facts((key, each) for key, each in value.items() if key not in _NOT_FACTS)]
    for each in value["attempts"]:
        ended = each["outcome"] + (f", exit code {each['exitCode']}" if each["exitCode"] is not None else "")
        lines = [f"attempt {each['attempt']} (fence {each['fence']}) on {each['node']}: {ended}"]
        lines += [f"  {tables.cell(each['error'])}"] if each["error"] else []
        lines += [f"  | {tables.cell(line)}" for line in each["output"].splitlines()]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def print_runs(
    store_url: str | None,
    output: str,
    limit: int,
    job: str | None,
    states: tuple[str, ...],
    *,
    watch: bool = False,
) -> None:
    """Print a list of runs."""
    known = {str(state).lower(): state for state in RunState}
    if unknown := [state for state in states if state.lower() not in known]:
        raise UsageError(f"there is no state {unknown[0]!r}; there are {', '.join(RunState)}")
    wanted = [known[state.lower()] for state in states] or None
    database = open_store(store_url)

    def ask(tx: Tx) -> list[printed.Row]:
        found = queries.runs_listed(tx, limit=limit, job=job, states=wanted)
        if job is not None and not found:
            definitions.named(tx, job)
        standing = queue_views.listed(tx) if any(row.state is RunState.PENDING for row in found) else []
        return [printed.run(each, why=_why_closed(each, standing)) for each in found]

    printed.show_list(
        lambda: database.read(ask),
        output,
        ["id", "definition", "trigger", "slot", "state", "reason", "attempt", "fence", "node", "exitCode", "error"],
        empty="no runs",
        watch=watch,
    )


def _why_closed(row: queries.RunRow, standing: Sequence[queue_views.Queue]) -> str | None:
    return queue_views.why_closed(standing, row.queue) if row.state is RunState.PENDING else None


def wait_for(database: Any, run_id: int, timeout: float) -> int:
    """Wait for a run's end, say how it ended, give the exit code. Raises StoreUnavailableError when time is up."""
    clock, never = SystemClock(), threading.Event()
    give_up_at = clock.elapsed() + timeout
    told_at = clock.elapsed() + _PATIENCE_SECONDS
    while True:
        row = database.read(lambda tx: queries.run_shown(tx, run_id))
        if row.is_over:
            click.echo(f"run {run_id} of {row.definition}: {row.state}" + (f" ({row.error})" if row.error else ""))
            if row.state is RunState.SUCCEEDED:
                return 0
            has_written = database.read(lambda tx: lines_of(tx, run_id, limit=1))
            click.echo(f"what it wrote: reconciler runs logs {run_id}" if has_written else "it wrote nothing", err=True)
            return 1
        if clock.elapsed() >= told_at:
            told_at = give_up_at
            if why := database.read(partial(why_waiting, row=row)):
                click.echo(f"still waiting: {why}", err=True)
        if clock.elapsed() >= give_up_at:
            raise StoreUnavailableError(f"run {run_id} is still {row.state} after {timeout:g} s; it goes on")
        clock.wait(never, _POLL_SECONDS)
