"""How answers are printed: a table for people, JSON and YAML for programs. Data goes to stdout, nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import yaml

from reconciler.cli import tables
from reconciler.clock import SECOND_US, iso
from reconciler.store.definitions import StoredDefinition
from reconciler.store.logs import LogRow
from reconciler.store.nodes import EndedBy, Node
from reconciler.store.overview import Last, Record
from reconciler.store.passes import Pass
from reconciler.store.pauses import Pause
from reconciler.store.queries import AttemptRow, DeadLetter, RunRow, SkippedSlot
from reconciler.store.queue_views import Queue

FORMAT_VERSION = "1.0"
Row = Mapping[str, Any]


def print_list(items: Sequence[Row], output: str, columns: Sequence[str], *, empty: str) -> None:
    """Print rows; `columns` are what the table shows, `empty` says what to do when there is nothing."""
    show_list(lambda: items, output, columns, empty=empty)


def show_list(
    ask: Callable[[], Sequence[Row]], output: str, columns: Sequence[str], *, empty: str, watch: bool = False
) -> None:
    """Print the rows that `ask` gives, or with `watch` print them again and again."""

    def text(value: Mapping[str, Any]) -> str:
        return tables.table(value["items"], columns) if value["items"] else empty

    def answer() -> Mapping[str, Any]:
        return {"formatVersion": FORMAT_VERSION, "items": list(ask())}

    if watch or output != "table":
        show_value(answer, text, output, watch=watch)
        return
    value = answer()
    click.echo(text(value), err=not value["items"])


def show_value(ask: Callable[[], Any], text: Callable[[Any], str], output: str, *, watch: bool = False) -> None:
    """Print what `ask` gives, as `text` draws it for people; with `watch` again and again."""

    def draw() -> tuple[str, Any]:
        value = ask()
        return text(value) if output == "table" else as_text(value, output), value

    if watch:
        tables.watched(draw)
    click.echo(draw()[0])


def print_value(value: Any, output: str) -> None:
    """Print one value as JSON or YAML."""
    click.echo(as_text(value, output))


def as_text(value: Any, output: str) -> str:
    """Give one value as JSON or YAML."""
    if output == "yaml":
        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).removesuffix("\n")
    return json.dumps(value, indent=2, ensure_ascii=False)


def run(row: RunRow, *, why: str | None = None) -> Row:
    """Show a run under the names of the interface; `why` it waits, where that is known."""
    return {
        "id": row.id,
        "definition": row.definition,
        "kind": row.kind,
        "trigger": row.trigger or "manual",
        "slot": iso(row.slot_us),
        "due": iso(row.due_us),
        "state": str(row.state),
        "reason": row.reason or why,
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
        "startedAt": maybe(row.started_us),
        "finishedAt": maybe(row.finished_us),
        "exitCode": row.exit_code,
        "error": row.error,
        "revision": row.revision,
    }


def attempt(row: AttemptRow) -> Row:
    """Show one hold on a run."""
    return {
        "attempt": row.attempt,
        "fence": row.fence,
        "node": row.node,
        "outcome": row.outcome,
        "startedAt": maybe(row.started_us),
        "finishedAt": iso(row.finished_us),
        "exitCode": row.exit_code,
        "error": row.error,
        "output": row.output,
    }


def definition(stored: StoredDefinition, next_fire_us: int | None, record: Record, paused: Pause | None = None) -> Row:
    """Show a definition under the names of the interface."""
    is_held = stored.suspended or (paused is not None and paused.until_us is None)
    return {
        "kind": stored.kind,
        "name": stored.name,
        "uid": stored.uid,
        "generation": stored.generation,
        "observedGeneration": stored.observed_generation,
        "suspended": stored.suspended,
        "paused": None if paused is None else pause(paused),
        "conditions": _conditions(stored.condition),
        "queue": stored.queue,
        "owner": stored.document.get("spec", {}).get("owner", ""),
        "source": stored.source,
        "file": stored.file,
        "line": stored.line,
        "revision": stored.revision,
        "previousFireTime": maybe(record.previous_slot_us),
        "nextFireTime": maybe(None if is_held else next_fire_us),
        "lastRun": _last(record.last_run),
        "lastSuccess": _last(record.last_success),
    }


def _conditions(condition: str | None) -> list[Row]:
    kind, _, message = (condition or "").partition(": ")
    return [{"type": kind, "message": message}] if kind else []


def _last(last: Last | None) -> Row | None:
    if last is None:
        return None
    return {"id": last.run_id, "state": str(last.state), "finishedAt": iso(last.finished_us), "error": last.error}


def queue(row: Queue, now_us: int) -> Row:
    """Show a queue."""
    age_us = None if row.oldest_due_us is None else max(0, now_us - row.oldest_due_us)
    return {
        "name": row.name,
        "jobs": row.jobs,
        "waiting": row.waiting,
        "later": row.later,
        "running": row.running,
        "max": row.max_running,
        "suspended": row.suspended,
        "oldestAgeSeconds": None if age_us is None else age_us // SECOND_US,
        "slots": row.slots,
        "workers": list(row.workers),
        "unserved": list(row.unserved),
    }


def node(row: Node, running: int) -> Row:
    """Show a worker's session, and how many runs it holds."""
    return {
        "id": row.id,
        "name": row.name,
        "state": _node_state(row),
        "host": row.host,
        "pid": row.pid,
        "queues": list(row.queues) if row.queues is not None else None,
        "handlers": list(row.handlers),
        "tags": list(row.tags),
        "slots": row.slots,
        "running": running,
        "heartbeatAt": iso(row.heartbeat_us),
        "leaseUntil": iso(row.lease_until_us),
        "endedBy": None if row.ended_by is None else str(row.ended_by),
        "tzdata": row.tzdata,
    }


def _node_state(row: Node) -> str:
    """Tell a worker that ended its session itself from one whose session had to be ended."""
    if row.ended_by is EndedBy.WORKER:
        return "Stopped"
    return row.state if row.alive or row.state == "Dead" else "Expired"


def reconcile_pass(row: Pass) -> Row:
    """Show a reconcile pass."""
    return {
        "id": row.id,
        "source": row.source,
        "state": str(row.state),
        "requestedBy": row.requested_by,
        "requestedAt": iso(row.requested_us),
        "finishedAt": maybe(row.finished_us),
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
        "detail": row.detail,
        "recordedAt": iso(row.recorded_us),
        "recordedBy": row.recorded_by,
    }


def pause(row: Pause) -> Row:
    """Show a pause."""
    return {
        "job": row.job,
        "by": row.paused_by,
        "reason": row.reason,
        "since": iso(row.paused_us),
        "until": maybe(row.until_us),
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


def maybe(us: int | None) -> str | None:
    return None if us is None else iso(us)
