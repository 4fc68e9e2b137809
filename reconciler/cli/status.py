"""`reconciler status`: everything an operator asks first, on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from reconciler import __version__
from reconciler.cli import options, show, tables
from reconciler.cli.stores import open_store
from reconciler.clock import SECOND_US, iso
from reconciler.schedule.zones import tzdata_version
from reconciler.store import leader, nodes, overview, passes, pauses, queries, queue_views
from reconciler.store.database import Tx
from reconciler.store.passes import OVER, Pass, PassState
from reconciler.words import count

_HOUR_US: Final = 3600 * SECOND_US
_SHOWN: Final = 10
_FIRES: Final = 5
_PASSES: Final = 200
_WORKERS: Final = 1000


@click.command()
@options.store
@options.output
@options.watch
def command(store_url: str | None, output: str, watch: bool) -> None:
    """Show who leads, what is applied, what waits and runs, what fails, and what fires next.

    \b
    Examples:
      reconciler status
      reconciler status --watch
      reconciler status -o json
    """
    database = open_store(store_url)
    shown = database.shown
    show.show_value(lambda: {**database.read(status_of), "store": shown}, _text, output, watch=watch)


def status_of(tx: Tx) -> dict[str, Any]:
    """Gather the status; every list in it is short."""
    now_us = tx.now_us()
    found = nodes.listed(tx, limit=_WORKERS)
    held = overview.held_by_node(tx)
    return {
        "formatVersion": show.FORMAT_VERSION,
        "now": iso(now_us),
        "version": __version__,
        "tzdata": tzdata_version(),
        "leader": _leader(tx, now_us),
        "sources": _sources(tx),
        "definitions": _definitions(tx),
        "runs": {str(state): total for state, total in sorted(queries.depth(tx).items())},
        "endedLastHour": {
            str(state): total for state, total in sorted(overview.ended_counts(tx, now_us - _HOUR_US).items())
        },
        "queues": [show.queue(each, now_us) for each in queue_views.listed(tx)],
        "workers": [show.node(each, held.get(each.id, 0)) for each in found],
        "failing": [
            {"definition": name, "run": last.run_id, "state": str(last.state), "error": last.error}
            for name, last in overview.failing(tx, limit=_SHOWN)
        ],
        "notApplied": [{"definition": name, "why": why} for name, why in overview.degraded(tx, limit=_SHOWN)],
        "paused": [show.pause(each) for each in pauses.listed(tx)],
        "deadLetters": overview.dead_letter_count(tx),
        "nextFires": [
            {"definition": each.definition, "trigger": each.trigger, "slot": iso(each.slot_us)}
            for each in overview.next_fires(tx, limit=_FIRES)
        ],
    }


def _definitions(tx: Tx) -> dict[str, int]:
    """Count definitions of all kinds by state."""
    counts = dict.fromkeys(("active", "suspended", "degraded"), 0)
    for (_, state), number in overview.definition_counts(tx).items():
        counts[state.lower()] += number
    return counts


def _leader(tx: Tx, now_us: int) -> dict[str, Any] | None:
    """Show the leader and its countdown; None while nobody leads."""
    row = leader.current(tx)
    if not row.alive:
        return None
    left_us = max(0, row.expires_us - now_us)
    seconds = left_us // SECOND_US
    return {"owner": row.owner, "term": row.term, "expiresAt": iso(row.expires_us), "expiresInSeconds": seconds}


def _sources(tx: Tx) -> list[dict[str, Any]]:
    """Show what of each source is applied, and how its newest pass ended."""
    newest: dict[str, Pass] = {}
    for each in passes.listed(tx, limit=_PASSES):
        if each.state in OVER:
            newest.setdefault(each.source, each)
    known = {each.source: each for each in overview.applied(tx)}
    return [_source(name, known.get(name), newest.get(name)) for name in sorted({*known, *newest})]


def _source(name: str, applied: overview.Applied | None, last: Pass | None) -> dict[str, Any]:
    at_us = None if applied is None else applied.applied_us
    report = {} if last is None else last.report
    return {
        "name": name,
        "path": None if applied is None else applied.path,
        "revision": None if applied is None else applied.revision,
        "appliedAt": None if at_us is None else iso(at_us),
        "lastPass": None if last is None else {"id": last.id, "state": str(last.state)},
        "problems": report.get("problemCount", 0),
        "reason": report.get("reason") or report.get("error") or None,
        "held": None if last is None else last.deletion_digest,
    }


def _text(value: dict[str, Any]) -> str:
    return "\n\n".join(part for part in _parts(value) if part)


def _parts(value: dict[str, Any]) -> Iterator[str]:
    yield tables.facts(
        [
            ("store", value["store"]),
            ("leader", _leader_words(value["leader"])),
            *(("source", _source_words(each)) for each in value["sources"]),
            ("definitions", _counts(value["definitions"]) or "none: commit some and run `reconciler reconcile`"),
            ("runs", _counts(value["runs"]) or "none waits or runs"),
            ("last hour", _counts(value["endedLastHour"]) or "no run ended"),
            ("dead letters", value["deadLetters"] or "none"),
            ("version", f"{value['version']}, time zones of {value['tzdata']}"),
        ]
    )
    yield _listed(
        "queues",
        value["queues"],
        ["name", "waiting", "later", "running", "max", "oldestAgeSeconds", "slots", "unserved"],
    )
    if value["workers"]:
        yield _listed("workers", value["workers"], ["name", "state", "queues", "running", "slots", "leaseUntil"])
    else:
        yield f"{tables.heading('workers')}\nnone: nothing runs before `reconciler worker` does"
    yield _listed("failing", value["failing"], ["definition", "state", "run", "error"])
    yield _listed("paused", value["paused"], ["job", "by", "since", "until", "reason"])
    yield _listed("not applied", value["notApplied"], ["definition", "why"])
    yield _listed("next", value["nextFires"], ["slot", "definition", "trigger"])


def _listed(title: str, items: list[dict[str, Any]], columns: list[str]) -> str:
    return f"{tables.heading(title)}\n{tables.table(items, columns)}" if items else ""


def _leader_words(leading: dict[str, Any] | None) -> str:
    if leading is None:
        return "nobody leads: no slot becomes a run before `reconciler serve` does"
    return f"{leading['owner']}, term {leading['term']}, lease ends in {leading['expiresInSeconds']} s"


def _source_words(source: dict[str, Any]) -> str:
    applied = "nothing applied yet"
    if source["appliedAt"]:
        applied = f"revision {source['revision']} since {source['appliedAt']}"
    last = source["lastPass"]
    words = f"{source['name']}: {applied}"
    if last and last["state"] not in {PassState.APPLIED, PassState.UNCHANGED}:
        words += f"; pass {last['id']} {last['state']}"
        words += f", {count(source['problems'], 'problem')}" if source["problems"] else ""
        words += f": {source['reason']}" if source["reason"] else ""
    return words


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{total:,} {name}" for name, total in counts.items() if total)
