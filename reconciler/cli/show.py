"""How answers are printed: a table for people, JSON and YAML for programs. Data goes to stdout, nothing else does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
import yaml

from reconciler.clock import iso
from reconciler.store.definitions import StoredDefinition
from reconciler.store.logs import LogRow
from reconciler.store.nodes import Node
from reconciler.store.passes import Pass
from reconciler.store.queries import AttemptRow, DeadLetter, RunRow, SkippedSlot

FORMAT_VERSION = "1.0"
Row = Mapping[str, Any]


def print_list(items: Sequence[Row], output: str, columns: Sequence[str], *, empty: str) -> None:
    """Print rows; `columns` are what the table shows, `empty` says what to do when there is nothing."""
    if output != "table":
        print_value({"formatVersion": FORMAT_VERSION, "items": list(items)}, output)
        return
    if not items:
        click.echo(empty, err=True)
        return
    cells = [[_cell(item.get(column)) for column in columns] for item in items]
    heads = [column.upper() for column in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for line in (heads, *cells):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_value(value: Any, output: str) -> None:
    """Print one value as JSON or YAML."""
    if output == "yaml":
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    else:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def run(row: RunRow) -> Row:
    """Show a run under the names of the interface."""
    return {
        "id": row.id,
        "definition": row.definition,
        "kind": row.kind,
        "trigger": row.trigger or "manual",
        "slot": iso(row.slot_us),
        "state": str(row.state),
        "reason": row.reason,
        "attempt": row.attempt,
        "lostLeases": row.lost_leases,
        "fence": row.fence,
        "node": row.node,
        "queue": row.queue,
        "handler": row.handler,
        "priority": row.priority,
        "generation": row.generation,
        "createdAt": iso(row.created_us),
        "createdBy": row.created_by,
        "startedAt": _instant(row.started_us),
        "finishedAt": _instant(row.finished_us),
        "exitCode": row.exit_code,
        "error": row.error,
    }


def attempt(row: AttemptRow) -> Row:
    """Show one hold on a run."""
    return {
        "attempt": row.attempt,
        "fence": row.fence,
        "node": row.node,
        "outcome": row.outcome,
        "startedAt": _instant(row.started_us),
        "finishedAt": iso(row.finished_us),
        "exitCode": row.exit_code,
        "error": row.error,
        "output": row.output,
    }


def definition(stored: StoredDefinition, next_fire_us: int | None) -> Row:
    """Show a definition under the names of the interface."""
    return {
        "kind": stored.kind,
        "name": stored.name,
        "uid": stored.uid,
        "generation": stored.generation,
        "observedGeneration": stored.observed_generation,
        "suspended": stored.suspended,
        "condition": stored.condition,
        "queue": stored.queue,
        "owner": stored.document.get("spec", {}).get("owner", ""),
        "source": stored.source,
        "file": stored.file,
        "line": stored.line,
        "revision": stored.revision,
        "nextFireTime": _instant(next_fire_us),
    }


def node(row: Node) -> Row:
    """Show a worker's session."""
    return {
        "id": row.id,
        "name": row.name,
        "state": row.state if row.alive or row.state == "Dead" else "Expired",
        "host": row.host,
        "pid": row.pid,
        "queues": list(row.queues) if row.queues is not None else None,
        "handlers": list(row.handlers),
        "tags": list(row.tags),
        "slots": row.slots,
        "heartbeatAt": iso(row.heartbeat_us),
        "leaseUntil": iso(row.lease_until_us),
    }


def reconcile_pass(row: Pass) -> Row:
    """Show a reconcile pass."""
    return {
        "id": row.id,
        "source": row.source,
        "state": str(row.state),
        "requestedBy": row.requested_by,
        "requestedAt": iso(row.requested_us),
        "finishedAt": _instant(row.finished_us),
        "revision": row.revision or None,
        "planDigest": row.plan_digest,
        "deletionDigest": row.deletion_digest,
        "report": dict(row.report),
    }


def slot(row: SkippedSlot) -> Row:
    """Show a slot that did not become a run."""
    return {
        "definition": row.definition,
        "trigger": row.trigger,
        "slot": iso(row.slot_us),
        "reason": row.reason,
        "recordedAt": iso(row.recorded_us),
        "recordedBy": row.recorded_by,
    }


def dead_letter(row: DeadLetter) -> Row:
    """Show a run that was given up."""
    return {
        "run": row.run_id,
        "definition": row.definition,
        "reason": row.reason,
        "lastOutcome": row.last_outcome,
        "error": row.error,
        "parkedAt": iso(row.parked_us),
    }


def log_line(row: LogRow) -> Row:
    """Show a line that a job printed."""
    return {
        "time": iso(row.at_us),
        "node": row.node,
        "attempt": row.attempt,
        "stream": str(row.stream),
        "text": row.text,
    }


def _instant(us: int | None) -> str | None:
    return None if us is None else iso(us)


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case list():
            return ",".join(map(str, value)) or "-"
        case _:
            return str(value).replace("\n", " ")
