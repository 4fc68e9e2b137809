"""Applying from the command line: ask the leader for a pass, or, where none lives, lead for as long as it takes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import click

from reconciler.cli import Exit, show
from reconciler.cli.settings import Settings
from reconciler.cli.stores import actor, open_store, process_name
from reconciler.cli.wiring import misfire_of, source_of
from reconciler.clock import SECOND_US, SystemChance, SystemClock
from reconciler.config import SourceSettings
from reconciler.errors import RefusedError, StoreUnavailableError
from reconciler.reconcile.apply import Applier, Source
from reconciler.reconcile.planning import known_as
from reconciler.reconcile.revision import Fingerprint
from reconciler.reconcile.settle import PAUSE_SECONDS, Settling
from reconciler.store import leader, passes
from reconciler.store.database import Database
from reconciler.store.passes import OVER, Pass, PassState

_LEADER_ANSWERS_WITHIN_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.1
_TERM_SECONDS: Final = 60
_SETTLES_WITHIN_SECONDS: Final = 30
_MARKS: Final = {"created": "+", "updated": "~", "pruned": "-", "kept": "x", "withheld": "!", "held": "!"}


def apply(
    settings: Settings,
    chosen: SourceSettings,
    store_url: str | None,
    *,
    moved: bool,
    expect_digest: str | None,
    output: str,
) -> int:
    """Make one pass and say how it ended; give the exit code."""
    database = open_store(store_url)
    ended = _asked(database, Path(chosen.path), chosen.name, expect_digest)
    if ended is None:
        ended = _led(database, settings, source_of(settings, chosen, moved=moved), expect_digest)
    if output == "json":
        show.print_value({"formatVersion": show.FORMAT_VERSION, **show.reconcile_pass(ended)}, output)
    else:
        _print(ended)
    database.close()
    return _exit(ended)


def _asked(database: Database, path: Path, source_name: str, expect_digest: str | None) -> Pass | None:
    """Have the living leader make the pass, over its own files; None when nobody leads."""
    leading = database.read(leader.current)
    if not leading.alive:
        return None
    known = database.read(lambda tx: passes.source_of(tx, source_name))
    if known is not None and known.path != known_as(path):
        raise RefusedError(
            f"{leading.owner} leads and applies source {source_name!r} from {known.path}, not from {known_as(path)}"
        )
    pass_id = database.tx(lambda tx: passes.request(tx, source_name, requested_by=actor(), expect_digest=expect_digest))
    click.echo(f"asked {leading.owner} for pass {pass_id} …", err=True)
    clock, never = SystemClock(), threading.Event()
    give_up_at = clock.elapsed() + _LEADER_ANSWERS_WITHIN_SECONDS
    while clock.elapsed() < give_up_at:
        found = database.read(lambda tx: passes.show(tx, pass_id))
        if found is not None and found.state in OVER:
            return found
        clock.wait(never, _POLL_SECONDS)
    raise StoreUnavailableError(
        f"the leader did not make pass {pass_id} within {_LEADER_ANSWERS_WITHIN_SECONDS} s; it still may"
    )


def _led(database: Database, settings: Settings, source: Source, expect_digest: str | None) -> Pass:
    """Take a term, make the pass, give the term back."""
    term = database.tx(lambda tx: leader.acquire(tx, process_name(), ttl_us=_TERM_SECONDS * SECOND_US))
    if term is None:
        raise StoreUnavailableError("another process took the lead a moment ago: ask again")
    applier = Applier(
        database,
        source,
        timings=settings.timings,
        chance=SystemChance(),
        exclusive=threading.Lock(),
        misfire=misfire_of(settings),
    )
    try:
        ended = None
        while ended is None:
            ended = applier.run(term, settled=_settled(source), expect_digest=expect_digest)
    finally:
        database.tx(lambda tx: leader.release(tx, term))
    found = database.read(lambda tx: passes.show(tx, ended.pass_id))
    if found is None:
        raise StoreUnavailableError(f"pass {ended.pass_id} is not in the store any more")
    return found


def _settled(source: Source) -> Fingerprint:
    """Wait until two looks at the files agree. Raises RefusedError when they keep changing."""
    clock, never = SystemClock(), threading.Event()
    settling = Settling(source.path, clock=clock, limits=source.limits)
    give_up_at = clock.elapsed() + _SETTLES_WITHIN_SECONDS
    while clock.elapsed() < give_up_at:
        found = settling.look()
        if found is not None:
            return found
        clock.wait(never, PAUSE_SECONDS)
    raise RefusedError(
        f"{source.path} kept changing for {_SETTLES_WITHIN_SECONDS} s, or git holds its lock: nothing was applied"
    )


def _print(ended: Pass) -> None:
    report = ended.report
    for problem in report.get("problems", ()):
        place = f"{problem['file']}:{problem['line']}:{problem['column']}"
        click.echo(f"{problem['severity']}[{problem['rule']}] {place}: {problem['what']}. {problem['mend']}.", err=True)
    for key, mark in _MARKS.items():
        for name in report.get(key, ()):
            click.echo(f"{mark} {name} ({key})")
    if why := report.get("reason") or report.get("error"):
        click.echo(f"{why}", err=True)
    click.echo(f"pass {ended.id}: {ended.state}" + (f", revision {ended.revision}" if ended.revision else ""))


def _exit(ended: Pass) -> Exit:
    match ended.state:
        case PassState.APPLIED | PassState.UNCHANGED:
            return Exit.DONE
        case PassState.INVALID:
            return Exit.INVALID
        case PassState.REFUSED:
            return Exit.REFUSED
        case _:
            return Exit.FAILED
