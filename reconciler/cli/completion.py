"""`reconciler completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from reconciler.cli import root
from reconciler.errors import UsageError

_PROGRAM = "reconciler"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      reconciler completion bash > ~/.local/share/bash-completion/completions/reconciler
      reconciler completion zsh > "${fpath[1]}/_reconciler"
      reconciler completion fish > ~/.config/fish/completions/reconciler.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"there is no completion for {shell}")
    completion = kind(root, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())
