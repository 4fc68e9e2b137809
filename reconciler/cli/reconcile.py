"""`reconciler reconcile`: show what a tree would do (`--dry-run`), or apply it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from reconciler.cli import options
from reconciler.cli.settings import Settings, load
from reconciler.clock import SECOND_US, SystemClock
from reconciler.config import SourceSettings
from reconciler.errors import RefusedError, Severity, UsageError
from reconciler.model.tree import Tree
from reconciler.plan.diff import Plan, Stored, plan_for, relative
from reconciler.plan.guard import DeletionRule
from reconciler.plan.render import About, as_json, as_text, exit_code
from reconciler.spec.load import SourceUnavailableError, load_revision, load_tree
from reconciler.spec.report import as_text as problems_as_text
from reconciler.spec.report import problem_facts
from reconciler.spec.revision import RevisionUnreadableError

_NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True)
class Compared:
    """A tree, what it was compared with, and the plan that came of it."""

    tree: Tree
    plan: Plan
    level: str
    against: str


@click.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--dry-run", is_flag=True, help="Only show what applying would do; nothing is written.")
@click.option(
    "--against", metavar="REF|DIR", default=None, help="Dry run against a git revision or a folder; no store."
)
@options.store
@click.option("--source", "source_name", metavar="NAME", default=None, help=options.SOURCE_HELP)
@click.option("--source-moved", is_flag=True, help="PATH replaces the path this source was applied from before.")
@click.option("--expect-digest", metavar="DIGEST", default=None, help="Apply only if the plan is still this one.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--detailed-exitcode", "detailed", is_flag=True, help="Exit 2 when there are changes (dry run).")
@click.option(
    "--horizon", type=options.Duration(), default="14d", show_default=True, help="How far fire times are compared."
)
@click.option("--now", metavar="INSTANT", default=None, help="Plan as of this instant, for output that never changes.")
def command(
    path: Path | None,
    dry_run: bool,
    against: str | None,
    store_url: str | None,
    source_name: str | None,
    source_moved: bool,
    expect_digest: str | None,
    output: str,
    strict: bool,
    detailed: bool,
    horizon: float,
    now: str | None,
) -> int:
    """Reconcile the definitions under PATH (default: the configured source, jobs.d) into the store.

    \b
    Examples:
      reconcile --dry-run jobs.d                       against the store, or against nothing where there is none
      reconcile --dry-run --against origin/main        what does this branch change? needs no store
      reconcile jobs.d --expect-digest 4be1…           apply exactly the plan that was looked at
    """
    if against is not None and not dry_run:
        raise UsageError("--against compares two trees and applies nothing: add --dry-run")
    settings = load()
    source = settings.source(path, source_name)
    if not dry_run:
        from reconciler.cli.applying import apply

        return apply(settings, source, store_url, moved=source_moved, expect_digest=expect_digest, output=output)
    now_us = SystemClock().now_us() if now is None else options.instant(now)
    try:
        compared = _compared(settings, source, against, store_url)
    except SourceUnavailableError as fault:
        raise RefusedError(fault.refusal) from fault
    _print(compared, source.name, output, now_us=now_us, horizon_us=round(horizon * SECOND_US))
    if expect_digest is not None and expect_digest != compared.plan.digest:
        raise RefusedError(f"the plan is {compared.plan.digest} now, not {expect_digest}")
    errors = len(compared.tree.errors)
    warnings = sum(problem.severity is Severity.WARNING for problem in compared.tree.problems)
    return exit_code(compared.plan, errors=errors, warnings=warnings, strict=strict, detailed=detailed)


def _compared(settings: Settings, source: SourceSettings, against: str | None, store_url: str | None) -> Compared:
    """Plan against the first of: what was asked for, the store that is named or found, nothing."""
    tree = load_tree(source.path, limits=settings.limits, time_zone=settings.time_zone)
    if against is not None:
        level, other = _other(settings, source, against)
        return Compared(tree, _storeless(tree, _declared(other, tree.root), settings.deletions), level, against)
    file = options.default_store_file()
    if store_url is None and not file.exists():
        return Compared(tree, _storeless(tree, [], settings.deletions), _NOTHING, _NOTHING)
    from reconciler.cli.stores import open_store
    from reconciler.reconcile.planning import plan_against

    database = open_store(store_url)
    planned = plan_against(database, source.name, tree, settings.deletions)
    shown = database.shown
    database.close()
    return Compared(planned.tree, planned.plan, "store", shown)


def _other(settings: Settings, source: SourceSettings, against: str) -> tuple[str, Tree]:
    """Load what `--against` names.

    Raises UsageError when it names nothing (the other side is the caller's word), RevisionUnreadableError when it names
    a revision that git does not have in full.
    """
    try:
        if Path(against).is_dir():
            return "directory", load_tree(against, limits=settings.limits, time_zone=settings.time_zone)
        other = load_revision(source.path, against, limits=settings.limits, time_zone=settings.time_zone)
        return "revision", other
    except RevisionUnreadableError:
        raise
    except SourceUnavailableError as fault:
        raise UsageError(f"--against {against}: {fault}") from fault


def _storeless(tree: Tree, stored: list[Stored], rule: DeletionRule) -> Plan:
    """Plan without what only a store knows: deletions a moment ago, and approvals."""
    return plan_for(tree, stored, recent_deletions=0, approved=(), rule=rule)


def _declared(other: Tree, root: str) -> list[Stored]:
    """Take another tree's definitions for what is stored, at the same places below this tree's root."""
    return [
        Stored(
            uid="/".join(each.key),
            kind=each.declared.kind,
            name=each.declared.name,
            generation=1,
            digest=each.declared.digest,
            document=each.declared.document,
            file=f"{root.rstrip('/')}/{relative(each.place.file, other.root)}",
            line=each.place.line,
        )
        for each in other.definitions
    ]


def _print(compared: Compared, source_name: str, output: str, *, now_us: int, horizon_us: int) -> None:
    tree = compared.tree
    about = About(
        source=source_name,
        tree=tree.root,
        level=compared.level,
        against=compared.against,
        now_us=now_us,
        apply_command=f"reconciler reconcile {tree.root}",
        horizon_us=horizon_us,
    )
    if output == "json":
        click.echo(as_json(compared.plan, about, problems=[problem_facts(each) for each in tree.problems]))
        return
    if tree.problems:
        click.echo(problems_as_text(tree) + "\n")
    click.echo(as_text(compared.plan, about))
