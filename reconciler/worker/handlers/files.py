"""The node's data folder, as the demo handlers see it: nothing outside it is read, written or removed.

A result appears whole or not at all: it is written beside its place, under a name that begins with a dot, and renamed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, TextIO

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class PayloadError(Exception):
    """The payload asks for what cannot be done; the text says why, fit for a person."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The folder and the path rules."""

    root: Path

    @classmethod
    def open(cls, path: str) -> DataFolder:
        """Take the folder as it is on disk, links followed once."""
        return cls(Path(path).resolve(strict=True))

    def path(self, name: str) -> Path:
        """Give the path of `name`, relative to the folder. Raises PayloadError if it leads out of it."""
        parts = PurePosixPath(name)
        if not name or parts.is_absolute() or ".." in parts.parts or "\0" in name:
            raise PayloadError(f"{name!r} is no path inside the data folder")
        path = self.root / parts
        if not path.resolve().is_relative_to(self.root):
            raise PayloadError(f"{name!r} leads out of the data folder through a link")
        return path

    def name_of(self, path: Path) -> str:
        """Give the name of a path, for people."""
        return path.relative_to(self.root).as_posix()


def say(line: str) -> None:
    """Print a line for the run's output, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def seconds_in(field: str, text: str) -> int:
    """Read a duration of the payload, such as 90s or 7d. Raises PayloadError."""
    if text[-1:] not in _UNIT_SECONDS or not (text[:-1].isascii() and text[:-1].isdecimal()):
        raise PayloadError(f"{field}: {text!r} is no duration; write it like 90s, 15m, 12h or 7d")
    return int(text[:-1]) * _UNIT_SECONDS[text[-1]]


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Write a text file beside `path`; it takes the name only when everything went well and is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fchmod(descriptor, 0o644)
            os.fsync(descriptor)
        Path(beside).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(beside).unlink()
        raise
