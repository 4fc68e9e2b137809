"""The front door. Commands are imported when they are run, so that `validate` and `--help` load no database library.

Exit codes are an interface: 0 done, 1 invalid definitions or not found, 2 changes (with `--detailed-exitcode`),
3 refused, 4 store unreachable, 64 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from reconciler import __version__
from reconciler.cli.tables import no_color
from reconciler.errors import (
    InvalidDefinitionsError,
    InvalidSettingsError,
    NotFoundError,
    ReconcilerError,
    RefusedError,
    UsageError,
)


class Exit(IntEnum):
    """What the process's exit code says."""

    DONE = 0
    INVALID = 1
    CHANGES = 2
    REFUSED = 3
    FAILED = 4
    USAGE = 64
    INTERRUPTED = 130


_COMMANDS: Final = {
    "dev": ("reconciler.cli.dev", "Run everything on this machine, on SQLite, to try things out."),
    "init": ("reconciler.cli.init", "Write example definitions and a commented reconciler.yaml."),
    "validate": ("reconciler.cli.validate", "Check definition files; needs no store."),
    "reconcile": ("reconciler.cli.reconcile", "Show (--dry-run) or apply what jobs.d declares."),
    "approve": ("reconciler.cli.approve", "Release deletions that the guard holds."),
    "serve": ("reconciler.cli.serve", "Run a leader candidate over jobs.d."),
    "worker": ("reconciler.cli.worker", "Run a node that claims and executes runs."),
    "status": ("reconciler.cli.status", "Show who leads, what waits, runs and fails, and what fires next."),
    "get": (
        "reconciler.cli.get",
        "List jobs, runs, workers, queues, calendars, passes, skipped slots or dead letters.",
    ),
    "describe": ("reconciler.cli.describe", "Show all about one job, run, worker, queue, calendar or pass."),
    "trigger": ("reconciler.cli.trigger", "Run a job now, by hand."),
    "schedule": ("reconciler.cli.schedule", "Show when a job, or a bare expression, fires."),
    "pause": ("reconciler.cli.pause:pause", "Stop the triggers of a job for a while, without touching its file."),
    "resume": ("reconciler.cli.pause:resume", "Let the triggers of a paused job fire again."),
    "why": ("reconciler.cli.why", "Say what became of a job at an instant."),
    "runs": ("reconciler.cli.runs", "Look at runs, wait for them, cancel them."),
    "import": ("reconciler.cli.importing", "Write definitions from a crontab."),
    "doctor": ("reconciler.cli.doctor", "Check this machine, its settings and its store."),
    "config": ("reconciler.cli.config", "Show the settings that hold, and where each came from."),
    "db": ("reconciler.cli.db", "Bring the store's schema up to date, or check it."),
    "completion": ("reconciler.cli.completion", "Print the completion script of a shell."),
}


class _Commands(click.Group):
    """Commands by name; the module of one is imported when it is run, its one line of help is known before."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - same
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name or "command")
        if not isinstance(command, click.Command):
            raise TypeError(f"{_COMMANDS[cmd_name][0]}.command is no command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """Offer commands by name without importing one of them."""
        options = click.Command.shell_complete(self, ctx, incomplete)
        named = [(name, about) for name, (_module, about) in _COMMANDS.items() if name.startswith(incomplete)]
        return [*(CompletionItem(name, help=about) for name, about in named), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - same
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_module, about) in _COMMANDS.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "--version", prog_name="reconciler", message="%(prog)s %(version)s")
@click.option("--no-color", is_flag=True, expose_value=False, callback=no_color, help="No colours.  [env NO_COLOR]")
def root() -> None:
    """Jobs as YAML in git, reconciled into a store, run by workers under leases and fences.

    \b
    Examples:
      reconciler dev                              try it: leader, worker and store in .reconciler/
      reconciler validate jobs.d                  check files, in CI, without a store
      reconciler reconcile --dry-run jobs.d       what would this commit do?
      reconciler serve --store postgresql://…     lead over jobs.d
      reconciler worker --store postgresql://…    execute runs on this node
      reconciler status --watch                   who leads, what runs, what fails
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `reconciler` and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def reconcile_main() -> None:
    """Run `reconcile`: the same as `reconciler reconcile`."""
    sys.exit(run(["reconcile", *sys.argv[1:]]))


def run(arguments: list[str]) -> int:
    """Run one command line; give its exit code. No fault of the caller, or of the machine, ends in a traceback."""
    try:
        _refuse_unprintable(arguments)
        code = root.main(arguments, prog_name="reconciler", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as fault:
        fault.show()
        return Exit.USAGE
    except click.ClickException as fault:
        fault.show()
        return Exit.FAILED
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return Exit.INTERRUPTED
    except ReconcilerError as fault:
        is_report = isinstance(fault, InvalidSettingsError)
        click.echo(str(fault) if is_report else f"error: {fault}", err=True)
        return exit_of(fault)
    except BrokenPipeError:
        _close_stdout()  # the reader (head, less) has seen enough
        return Exit.DONE
    except OSError as fault:
        click.echo(f"error: {fault.strerror or fault}{f': {fault.filename}' if fault.filename else ''}", err=True)
        _close_stdout()
        return Exit.FAILED
    except Exception as fault:
        if os.environ.get("RECONCILER_DEBUG"):
            raise
        click.echo(f"error: {type(fault).__name__}: {fault}", err=True)
        click.echo("this is a fault of reconciler; RECONCILER_DEBUG=1 shows where", err=True)
        return Exit.FAILED
    return int(code) if isinstance(code, int) else Exit.DONE


def _refuse_unprintable(arguments: list[str]) -> None:
    """Refuse arguments that are no UTF-8: no store, file or log could hold them. Raises UsageError."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as fault:
            raise UsageError(f"{argument!r} is no UTF-8 text") from fault


def _close_stdout() -> None:
    """Keep the interpreter from complaining at its end about an output that takes nothing more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_of(fault: ReconcilerError) -> Exit:
    """Give the exit code of an error."""
    match fault:
        case InvalidDefinitionsError() | NotFoundError():
            return Exit.INVALID
        case RefusedError():
            return Exit.REFUSED
        case UsageError():
            return Exit.USAGE
        case _:
            return Exit.FAILED
