"""`reconciler trigger`: run a job by hand."""

from __future__ import annotations

import json
from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.runs import wait_for
from reconciler.cli.stores import actor, open_store
from reconciler.errors import UsageError
from reconciler.model.definition import job_from
from reconciler.spec.values import check_parameters
from reconciler.store import definitions, runs


@click.command()
@click.argument("job")
@options.store
@click.option("--parameter", "-p", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of the job.")
@click.option(
    "--slot", default=None, metavar="INSTANT", help="The instant the run stands for, like 2026-12-31T23:00:00Z."
)
@click.option("--idempotency-key", default=None, metavar="KEY", help="The same key never makes a second run.")
@click.option("--wait", "waits", is_flag=True, help="Wait until it is over; exit 1 when it did not succeed.")
@click.option("--timeout", type=options.Duration(), default="1h", show_default=True, help="How long --wait waits.")
def command(
    job: str,
    store_url: str | None,
    parameters: tuple[str, ...],
    slot: str | None,
    idempotency_key: str | None,
    waits: bool,
    timeout: float,
) -> int:
    """Run JOB now. A manual run needs no leader; it is claimed like any other.

    \b
    Examples:
      reconciler trigger daily-sales-report --wait
      reconciler trigger daily-sales-report -p region=us --idempotency-key ticket-4711
    """
    if idempotency_key == "":
        raise UsageError("the idempotency key is empty; leave the option out, or name what is asked for once")
    slot_us = None if slot is None else options.instant(slot)
    given_parameters = dict(map(_pair, parameters))
    database = open_store(store_url)
    stored = database.read(lambda tx: definitions.named(tx, job))
    given = check_parameters(job_from(stored.document), given_parameters)
    run_id, is_new = database.tx(
        lambda tx: runs.create(
            tx,
            job,
            actor=actor(),
            slot_us=slot_us,
            parameters=given,
            idempotency_key=idempotency_key,
        )
    )
    database.hint()
    click.echo(f"run {run_id} {'created' if is_new else 'exists already under this key'}")
    return wait_for(database, run_id, timeout) if waits else 0


def _pair(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; the value is JSON where it is some (`3`, `true`, `["a"]`), else text. Raises UsageError.

    What begins like a list or an object and is no JSON was meant as some: it is no text.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text!r} is no parameter: write NAME=VALUE")
    try:
        return name, json.loads(value)
    except RecursionError as fault:
        raise UsageError(f"the value of {name!r} is nested too deeply") from fault
    except ValueError as fault:
        if value.startswith(("[", "{")):
            raise UsageError(f"the value of {name!r}, {value!r}, is no JSON: {fault}") from fault
        return name, value
