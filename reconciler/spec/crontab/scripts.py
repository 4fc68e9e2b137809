"""What an entry runs, as the payload of handler `command`: a shell with one text, and the environment cron gave it.

A definition may not set variables such as PATH and HOME, and reads `{{` as the beginning of a placeholder; so both are
handed to the shell itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.spec.crontab.read import Entry
from reconciler.spec.payload import RESERVED, looks_secret

OURS: Final = "RECONCILER_"
_SHELL: Final = "sh"
_BOURNE: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh"})
_OF_CRON: Final = frozenset(
    {"SHELL", "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "RANDOM_DELAY", "LOGNAME", "USER"}
)
"""What cron reads itself, or sets whatever the crontab says."""
_PLACEHOLDER: Final = "{{"
_BETWEEN_BRACES: Final = re.compile(r"(?<=\{)(?=\{)")


@dataclass(frozen=True, slots=True)
class Script:
    """The payload, and what has to be told of it."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    notes: Sequence[str]
    refusal: str = ""
    """Why this cannot be run at all; empty when it can."""


def script_of(entry: Entry) -> Script:
    """Turn an entry's command, input and environment into what a worker starts."""
    shell = _shell(entry)
    notes: list[str] = []
    given: dict[str, str] = {}
    inside: dict[str, str] = {}
    for name, value in _environment(entry).items():
        if looks_secret(name, value):
            notes.append(
                f"{name} looks like a secret and is not written here: let the command read it from a file of the node."
            )
        elif name.startswith(OURS):
            notes.append(f"{name} is not written: the worker sets variables of that beginning.")
        elif _PLACEHOLDER in value or f"{name}=".startswith(RESERVED):
            inside[name] = value
        else:
            given[name] = value
    text = _text(entry, inside)
    if entry.stdin is not None:
        notes.append("what stood behind the first % is the command's standard input, here as a here-document.")
    if text != entry.command and shell.rsplit("/", 1)[-1] not in _BOURNE:
        return Script((), {}, (), f"its SHELL, {shell}, does not take what a Bourne shell has to be told here")
    if _PLACEHOLDER in text:
        notes.append("{{ would begin a placeholder, so the text is handed over in parts that the shell joins.")
        parts = _BETWEEN_BRACES.split(text)
        joined = "".join(f"${{{at}}}" for at in range(len(parts)))
        return Script((shell, "-c", f'eval "{joined}"', *parts), given, notes)
    return Script((shell, "-c", text), given, notes)


def _shell(entry: Entry) -> str:
    shell = entry.environment.get("SHELL", "")
    return _SHELL if shell in {"", "/bin/sh"} else shell


def _environment(entry: Entry) -> dict[str, str]:
    """Give the variables of the command; it keeps the machine's time zone, which is not that of a worker's jobs."""
    environment = {name: value for name, value in entry.environment.items() if name not in _OF_CRON}
    if entry.machine_zone != "UTC":
        environment.setdefault("TZ", entry.machine_zone)
    return environment


def _text(entry: Entry, inside: Mapping[str, str]) -> str:
    """Write the script: variables, home directory, standard input, and the command as it stood."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in inside.items()]
    if "HOME" in inside:
        lines.append('cd "$HOME" || exit')
    if entry.stdin is not None:
        end = "END"
        while end in entry.stdin.split("\n"):
            end += "_"
        lines += [f"exec <<'{end}'", entry.stdin, end]
    return "\n".join([*lines, entry.command])
