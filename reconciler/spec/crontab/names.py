"""Names for jobs that never had one: from the program they run, unique and valid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_LONGEST: Final = 63
_PUNCTUATION: Final = re.compile(r"[^a-z0-9]+")
_PIECES: Final = re.compile(r"&&|\|\||[;|\n]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*")
_SUFFIX: Final = re.compile(r"\.(?:sh|bash|py|pl|rb|php|js|jar)$")
_WRAPPERS: Final = frozenset(
    [
        "bash",
        "chronic",
        "chrt",
        "dash",
        "env",
        "eval",
        "exec",
        "flock",
        "ionice",
        "java",
        "ksh",
        "nice",
        "nohup",
        "perl",
        "php",
        "python",
        "python3",
        "root",
        "ruby",
        "setsid",
        "sh",
        "su",
        "sudo",
        "systemd-cat",
        "time",
        "timeout",
        "zsh",
    ]
)
"""Programs that start the one that matters."""
_STEPS: Final = frozenset(
    [
        "!",
        ".",
        "[",
        "[[",
        "cd",
        "command",
        "export",
        "false",
        "if",
        "set",
        "sleep",
        "source",
        "test",
        "then",
        "true",
        "umask",
        "ulimit",
        "{",
    ]
)
"""Commands that only lead to the one that matters."""
_UNNAMED: Final = "job"


class Names:
    """Gives each job a name of its own."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = set(taken)

    def name(self, command: str) -> str:
        """Name a job after its program; the next one of the same program after its arguments too, or by number."""
        found = next(each for each in _candidates(command) if each not in self._taken)
        self._taken.add(found)
        return found


def _candidates(command: str) -> Iterator[str]:
    program, arguments = _program(command)
    plain = _slug(program) or _UNNAMED
    yield plain
    longer = _slug(f"{program} {arguments}")
    if longer:
        yield longer
    number = 2
    while True:
        ending = f"-{number}"
        yield plain[: _LONGEST - len(ending)].rstrip("-") + ending
        number += 1


def _program(command: str) -> tuple[str, str]:
    """Find the program that matters, and its arguments."""
    for piece in _PIECES.split(command):
        words = piece.strip(" \t(").split()
        while words and (_is_passed_over(words[0]) or _base(words[0]) in _WRAPPERS):
            words = words[1:]
        if words and _base(words[0]) not in _STEPS:
            return _SUFFIX.sub("", _base(words[0])), " ".join(words[1:])
    return "", ""


def _is_passed_over(word: str) -> bool:
    """Whether a word is an assignment, or an option, number or lock file of a wrapper."""
    is_option = word.startswith("-") or word.rstrip("smhd").isdigit() or word.endswith(".lock")
    return is_option or bool(_ASSIGNMENT.fullmatch(word))


def _base(word: str) -> str:
    return word.strip("\"'").rstrip("/").rsplit("/", 1)[-1]


def _slug(text: str) -> str:
    return _PUNCTUATION.sub("-", text.lower()).strip("-")[:_LONGEST].rstrip("-")
