"""`reconciler describe`: all about one thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from reconciler.cli import calendars, options, show, tables
from reconciler.cli.config import duration
from reconciler.cli.get import job_rows
from reconciler.cli.runs import print_run, why_waiting
from reconciler.cli.stores import open_store
from reconciler.clock import SECOND_US, iso
from reconciler.errors import NotFoundError
from reconciler.model.definition import Job, Trigger, job_from
from reconciler.schedule import TimingError
from reconciler.schedule.timeline import Timeline
from reconciler.store import definitions, nodes, overview, passes, queries, queue_views, timelines
from reconciler.store.database import Tx
from reconciler.store.definitions import StoredDefinition, StoredTrigger

_FIRES: Final = 5
_RUNS: Final = 10
_SESSIONS: Final = 10_000


@click.group()
def command() -> None:
    """Show all about one job, run, worker, queue, calendar or pass.

    \b
    Examples:
      reconciler describe job daily-sales-report
      reconciler describe queue reports --watch
      reconciler describe worker reports-1 -o json
    """


@command.command()
@click.argument("name")
@options.store
@options.output
@options.watch
def job(name: str, store_url: str | None, output: str, watch: bool) -> None:
    """Show a job: what holds for it, its triggers and next fires, its last runs.

    \b
    Examples:
      reconciler describe job daily-sales-report
    """
    database = open_store(store_url)
    show.show_value(lambda: database.read(lambda tx: _job(tx, name)), _job_text, output, watch=watch)


@command.command()
@click.argument("run_id", type=options.RUN_ID)
@options.store
@options.output
@options.watch
def run(run_id: int, store_url: str | None, output: str, watch: bool) -> None:
    """Show a run with every attempt at it, as `reconciler runs show` does.

    \b
    Examples:
      reconciler describe run 42
    """
    print_run(store_url, output, run_id, watch=watch)


@command.command()
@click.argument("name")
@options.store
@options.output
@options.watch
def worker(name: str, store_url: str | None, output: str, watch: bool) -> None:
    """Show the newest session of a worker (by name, or by the session's id), and its runs.

    \b
    Examples:
      reconciler describe worker reports-1
    """
    database = open_store(store_url)
    show.show_value(lambda: database.read(lambda tx: _worker(tx, name)), _with_runs_text, output, watch=watch)


@command.command()
@click.argument("name")
@options.store
@options.output
@options.watch
def queue(name: str, store_url: str | None, output: str, watch: bool) -> None:
    """Show a queue: who serves it, and what waits and runs in it.

    \b
    Examples:
      reconciler describe queue reports
    """
    database = open_store(store_url)
    show.show_value(lambda: database.read(lambda tx: _queue(tx, name)), _with_runs_text, output, watch=watch)


@command.command()
@click.argument("name")
@options.store
@options.output
@options.watch
def calendar(name: str, store_url: str | None, output: str, watch: bool) -> None:
    """Show a calendar: its windows with every date, when it is closed next, and which jobs mind it.

    \b
    Examples:
      reconciler describe calendar partners-closed
    """
    database = open_store(store_url)
    show.show_value(lambda: database.read(lambda tx: calendars.shown(tx, name)), calendars.text, output, watch=watch)


@command.command(name="pass")
@click.argument("pass_id", type=options.RUN_ID)
@options.store
@options.output
@options.watch
def pass_(pass_id: int, store_url: str | None, output: str, watch: bool) -> None:
    """Show a reconcile pass: what it changed, kept and held, and every problem it found.

    \b
    Examples:
      reconciler describe pass 7 -o yaml
    """
    database = open_store(store_url)
    show.show_value(lambda: database.read(lambda tx: _pass(tx, pass_id)), _pass_text, output, watch=watch)


def _job(tx: Tx, name: str) -> dict[str, Any]:
    stored = definitions.named(tx, name)
    (row,) = job_rows(tx, [stored])
    declared = job_from(stored.document)
    activations = {each.name: each for each in definitions.triggers_of(tx, [stored.id])}
    fires = _fires(tx, stored, declared)
    return {
        "formatVersion": show.FORMAT_VERSION,
        **row,
        "description": declared.description,
        "labels": dict(declared.labels),
        "createdAt": iso(stored.created_us),
        "updatedAt": iso(stored.updated_us),
        "effective": _effective(stored, declared),
        "handler": {"type": declared.handler.type, "with": declared.handler.payload},
        "triggers": [
            _trigger(each, activations.get(each.name), fires.get(each.name, [])) for each in declared.triggers
        ],
        "runs": [show.run(each) for each in queries.runs_listed(tx, limit=_RUNS, job=name)],
        "skippedSlots": [show.slot(each) for each in queries.skipped_slots(tx, limit=_FIRES, job=name)],
    }


def _effective(stored: StoredDefinition, declared: Job) -> list[dict[str, Any]]:
    """List what holds, and whether the file says it or it is the default."""
    retry, spec = declared.retry, stored.document.get("spec", {})
    values: dict[str, Any] = {
        "suspend": declared.suspend,
        "queue": declared.queue,
        "priority": declared.priority,
        "timeout": duration(declared.timeout_us / SECOND_US),
        "gracePeriod": duration(declared.grace_us / SECOND_US),
        "retry.maxAttempts": retry.max_attempts,
        "retry.backoff": str(retry.backoff),
        "retry.initial": duration(retry.initial_us / SECOND_US),
        "retry.max": duration(retry.max_us / SECOND_US),
        "retry.factor": retry.factor,
        "poison.maxLostLeases": declared.max_lost_leases,
        "onDelete": str(declared.on_delete),
    }
    return [
        {"field": field, "value": value, "from": "file" if _is_declared(spec, field) else "default"}
        for field, value in values.items()
    ]


def _is_declared(spec: Mapping[str, Any], field: str) -> bool:
    group, _, name = field.partition(".")
    return group in spec and (not name or name in spec[group])


def _trigger(trigger: Trigger, stored: StoredTrigger | None, next_fires: list[str]) -> dict[str, Any]:
    return {
        "name": trigger.name,
        **trigger.timing_document,
        **({"suspend": True} if trigger.suspend else {}),
        "parameters": dict(trigger.parameters),
        "activatedAt": None if stored is None else iso(stored.activated_us),
        "nextFireTimes": next_fires,
    }


def _fires(tx: Tx, stored: StoredDefinition, declared: Job) -> dict[str, list[str]]:
    """List when the triggers of a job run next; none of what is suspended, or that this program cannot read."""
    if stored.suspended:
        return {}
    try:
        lines = {each.trigger: each.timeline for each in timelines.of_job(tx, stored.name)}
    except (TimingError, ValueError, LookupError):
        return {}
    running = {each.name for each in declared.triggers if not each.suspend}
    return {name: _next_fires(line, tx.now_us()) for name, line in lines.items() if name in running}


def _next_fires(line: Timeline, at_us: int) -> list[str]:
    fires: list[str] = []
    while len(fires) < _FIRES and (planned := line.next_run_after(at_us)) is not None:
        at_us = planned.slot_us
        fires.append(iso(at_us))
    return fires


def _worker(tx: Tx, name: str) -> dict[str, Any]:
    listed = nodes.listed(tx, limit=_SESSIONS, with_dead=True)
    found = next((each for each in listed if name in {each.name, str(each.id)}), None)
    if found is None:
        raise NotFoundError(f"there is no worker {name!r}; `reconciler get workers --all` lists them")
    held = overview.held_by_node(tx).get(found.id, 0)
    runs = [show.run(each) for each in queries.runs_listed(tx, limit=_RUNS, node_id=found.id)]
    return {"formatVersion": show.FORMAT_VERSION, **show.node(found, held), "runs": runs}


def _queue(tx: Tx, name: str) -> dict[str, Any]:
    found = next((each for each in queue_views.listed(tx) if each.name == name), None)
    if found is None:
        raise NotFoundError(f"no job, run or worker names queue {name!r}; `reconciler get queues` lists them")
    runs = [show.run(each, why=why_waiting(tx, each)) for each in queries.runs_listed(tx, limit=_RUNS, queue=name)]
    return {"formatVersion": show.FORMAT_VERSION, **show.queue(found, tx.now_us()), "runs": runs}


def _pass(tx: Tx, pass_id: int) -> dict[str, Any]:
    found = passes.show(tx, pass_id)
    if found is None:
        raise NotFoundError(f"there is no pass {pass_id}; `reconciler get passes` lists them")
    return {"formatVersion": show.FORMAT_VERSION, **show.reconcile_pass(found)}


def _job_text(value: dict[str, Any]) -> str:
    apart = {"formatVersion", "effective", "handler", "triggers", "runs", "skippedSlots"}
    parts = [
        tables.facts((key, each) for key, each in value.items() if key not in apart),
        f"{tables.heading('effective')}\n{tables.table(value['effective'], ['field', 'value', 'from'])}",
        f"{tables.heading('handler')} {value['handler']['type']}\n"
        + (tables.facts(value["handler"]["with"].items(), indent="  ") or "  (no payload)"),
        *_trigger_texts(value["triggers"]),
        _runs_text(value["runs"]),
    ]
    if value["skippedSlots"]:
        skipped = tables.table(value["skippedSlots"], ["slot", "trigger", "reason", "recordedAt"])
        parts.append(f"{tables.heading('slots that did not run')}\n{skipped}")
    return "\n\n".join(parts)


def _trigger_texts(triggers: list[dict[str, Any]]) -> Iterator[str]:
    if not triggers:
        yield f"{tables.heading('triggers')}\nnone: by hand only, `reconciler trigger`"
    for each in triggers:
        shown = ((key, fact) for key, fact in each.items() if key != "name" and fact not in ({}, None))
        yield f"{tables.heading('trigger')} {each['name']}\n{tables.facts(shown, indent='  ')}"


def _with_runs_text(value: dict[str, Any]) -> str:
    shown = ((key, each) for key, each in value.items() if key not in {"formatVersion", "runs"})
    return f"{tables.facts(shown)}\n\n{_runs_text(value['runs'])}"


def _runs_text(runs: list[dict[str, Any]]) -> str:
    columns = ["id", "definition", "trigger", "slot", "state", "attempt", "node", "finishedAt", "error"]
    return f"{tables.heading('runs')}\n{tables.table(runs, columns) if runs else 'none yet'}"


def _pass_text(value: dict[str, Any]) -> str:
    report = value["report"]
    problems = report.get("problems", [])
    changed = [(key, each) for key, each in report.items() if key != "problems" and each not in ([], "", 0)]
    parts = [tables.facts((key, each) for key, each in value.items() if key not in {"formatVersion", "report"})]
    parts += [tables.facts(changed)] if changed else []
    parts += [
        "\n".join(
            f"{each['file']}:{each['line']}:{each['column']}: {tables.cell(each['what'])}. {tables.cell(each['mend'])}"
            for each in problems
        )
    ]
    return "\n\n".join(part for part in parts if part)
