"""`reconciler doctor`: is this machine fit for work, are its settings and its store; and how to mend what is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from reconciler.cli import Exit, calendars, options, show, tables
from reconciler.cli.machine import Finding, Verdict, configuration, disk, fail, libraries, ok, warn
from reconciler.cli.relations import ADDRESSES
from reconciler.cli.settings import load
from reconciler.cli.stores import open_store
from reconciler.clock import SECOND_US, SystemClock
from reconciler.engine.zonedata import PLANNED_WITH
from reconciler.errors import InvalidSettingsError, ReconcilerError, StoreUnavailableError
from reconciler.schedule.zones import tzdata_version
from reconciler.store import facts, leader, nodes, queue_views, schema
from reconciler.store.database import Database, Tx
from reconciler.store.files import file_system_of
from reconciler.store.nodes import Node

_SKEW_SECONDS: Final = 2.0
_OLDEST_SERVER: Final = 15
_SPARE_CONNECTIONS: Final = 20
_WORKERS: Final = 1000
_WANTED: Final = {
    "fsync": ("on", "without it a crash of the server loses what was acknowledged, and may break the database"),
    "full_page_writes": ("on", "without it a crash of the machine may break the database"),
    "synchronous_commit": ("on", "without it a crash loses results that were acknowledged"),
}


@click.command()
@options.config
@click.option("--store", "store_url", metavar="URL", default=None, help="Another store than the configured one.")
@click.option("--worker", "is_worker", is_flag=True, help="This machine only runs workers: it needs no definitions.")
@options.output
def command(store_url: str | None, is_worker: bool, output: str) -> int:
    """Check this machine, its settings and its store; exit 4 when something does not work.

    \b
    Examples:
      reconciler doctor
      reconciler doctor --store postgresql://db/reconciler -o json
      reconciler doctor --worker
    """
    found = list(_findings(store_url, with_sources=not is_worker))
    failed = any(each.verdict is Verdict.FAIL for each in found)
    items = [
        {"check": each.check, "verdict": str(each.verdict), "what": each.what, "mend": each.mend or None}
        for each in found
    ]
    show.show_value(lambda: {"formatVersion": show.FORMAT_VERSION, "ok": not failed, "items": items}, _text, output)
    return Exit.FAILED if failed else Exit.DONE


def _text(value: Mapping[str, Any]) -> str:
    width = max(len(each["check"]) for each in value["items"])
    lines = []
    for each in value["items"]:
        verdict = tables.colored(f"{each['verdict']:<4}", each["verdict"])
        lines.append(f"{verdict}  {each['check']:<{width}}  {tables.cell(each['what'])}")
        lines += [f"      {'':<{width}}  -> {tables.cell(each['mend'])}"] if each["mend"] else []
    if not value["ok"]:
        lines.append("\nsomething does not work: see the lines with `fail`")
    return "\n".join(lines)


def _findings(store_url: str | None, *, with_sources: bool) -> Iterator[Finding]:
    now_us = SystemClock().now_us()
    yield from libraries(now_us)
    try:
        settings = load({"store.url": store_url}, listens=ADDRESSES)
    except InvalidSettingsError as fault:
        places = [line.strip().removeprefix("--> ") for line in str(fault).splitlines() if "--> " in line]
        yield fail("settings", f"wrong at {', '.join(places)}", "`reconciler config show` says what and how to mend it")
        return
    except ReconcilerError as fault:
        yield fail("settings", str(fault), "mend the variable or the file")
        return
    yield from configuration(settings, with_sources=with_sources)
    try:
        database = open_store(settings.config.store.url)
    except StoreUnavailableError as fault:
        yield fail("store", str(fault), "start it, mend the URL, or make it with `reconciler db upgrade`")
        return
    except ReconcilerError as fault:
        yield fail("store", str(fault), "do what it says")
        return
    yield from _store(database)
    database.close()


def _store(database: Database) -> Iterator[Finding]:
    shown = database.shown
    yield ok("store", f"{shown}, schema {schema.head()}")
    try:
        yield from database.read(lambda tx: [*_engine(tx, database), *_processes(tx), *_calendars(tx)])
    except StoreUnavailableError as fault:
        yield fail("store", str(fault), "see that it answers, then try again")


def _engine(tx: Tx, database: Database) -> Iterator[Finding]:
    """Look at the engine: its settings, its clock, its disk."""
    facts = tx.facts()
    if database.file is not None:
        yield disk(database.file, file_system_of(database.file))
        return
    skew = abs(tx.now_us() - SystemClock().now_us()) / SECOND_US
    if skew > _SKEW_SECONDS:
        what = f"this machine is {skew:.1f} s away from the store's clock"
        yield warn("clock", what, "synchronise it (chrony, ntp); leases and slots go by the store's clock")
    else:
        yield ok("clock", f"{skew:.1f} s from the store's")
    yield from _server(facts)


def _server(facts: Mapping[str, str]) -> Iterator[Finding]:
    version = int(facts["server_version_num"]) // 10_000
    if version < _OLDEST_SERVER:
        yield fail("postgresql", f"version {version}", f"upgrade to {_OLDEST_SERVER} or newer")
    else:
        yield ok("postgresql", f"version {version}, TLS {facts['tls']}")
    for name, (wanted, why) in _WANTED.items():
        value = facts[name]
        if value != wanted and not (
            name == "synchronous_commit" and value in {"remote_apply", "remote_write", "local"}
        ):
            yield warn(name, f"{value}: {why}", f"set {name} = {wanted}")
    spare = int(facts["max_connections"]) - int(facts["connections"])
    if spare < _SPARE_CONNECTIONS:
        what = f"{facts['connections']} of {facts['max_connections']} are in use; a process of ours opens up to 12"
        yield warn("connections", what, "raise max_connections, or put a pooler in between")
    else:
        yield ok("connections", f"{spare} free of {facts['max_connections']}")


def _processes(tx: Tx) -> Iterator[Finding]:
    """Look at who is at work: the leader, the workers, and the queues that nobody serves."""
    leading = leader.current(tx)
    if leading.alive:
        yield ok("leader", f"{leading.owner}, term {leading.term}")
    else:
        yield warn("leader", "nobody leads: no slot becomes a run", "start `reconciler serve`")
    listed = nodes.listed(tx, limit=_WORKERS)
    living = [each.name for each in listed if each.alive]
    if living:
        yield ok("workers", ", ".join(sorted(living)))
    else:
        yield warn("workers", "none is alive: nothing runs", "start `reconciler worker`")
    yield from _zone_data(tx, listed)
    unserved = {
        each.name: each.unserved
        for each in queue_views.listed(tx)
        if each.unserved or (each.waiting and not each.workers)
    }
    for name, handlers in unserved.items():
        what = f"no living worker serves queue {name} with {', '.join(handlers) or 'what its runs need'}"
        yield warn("queues", what, f"start `reconciler worker --queues {name}`, or mend the jobs' queue")
    if not unserved and living:
        yield ok("queues", "every queue of a job is served")


def _zone_data(tx: Tx, living: Sequence[Node]) -> Iterator[Finding]:
    """Look whether everybody reads local times by the same data."""
    planned = facts.known(tx, PLANNED_WITH)
    found = {"this machine": tzdata_version(), **{each.name: each.tzdata for each in living}}
    others = sorted((name, version) for name, version in found.items() if version not in {None, planned})
    if planned is not None and others:
        told = ", ".join(f"{name} has {version}" for name, version in others)
        what = f"slots are planned by {planned}; {told}"
        yield warn("time zones", what, "install the same tzdata on every node")


def _calendars(tx: Tx) -> Iterator[Finding]:
    """Look whether the holidays known here are still those that the leader stored."""
    for each in calendars.live(tx):
        if told := each.outdated():
            yield warn("calendars", f"{each.stored.name}: {told}", "change it in its file, if only its description")
