"""Which programs a commit may have this worker start: none, unless its own command line admits them.

A rule is an absolute path, a bare name (found on the worker's own PATH) or `*`. Links are not followed: in a multi-call
binary every name is the same file, and admitting one of them must not admit all.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from reconciler.errors import ReconcilerError, UsageError

EVERYTHING: Final = "*"
WORKER: Final = "the worker"


class CannotRunError(ReconcilerError):
    """This run cannot be executed on this worker; the text becomes the run's error."""


@dataclass(frozen=True, slots=True)
class Allow:
    """The rules of one worker, and where it looks for bare names."""

    rules: frozenset[str]
    search_path: str
    command: str = WORKER
    """What a person starts with `--allow` to admit another program."""

    @classmethod
    def parse(cls, rules: Iterable[str], search_path: str, command: str = WORKER) -> Allow:
        """Read `--allow` values. Raises UsageError for a relative path; relative parts of PATH are left out."""
        wanted = frozenset(rules)
        for rule in sorted(wanted):
            if not rule or (os.sep in rule and not PurePath(rule).is_absolute()):
                raise UsageError(f"--allow {rule!r}: write an absolute path, a bare program name, or *")
        parts = [part for part in search_path.split(os.pathsep) if PurePath(part).is_absolute()]
        return cls(wanted, os.pathsep.join(parts), command)

    def resolve(self, program: str) -> str:
        """Give the absolute path to start for `program`. Raises CannotRunError."""
        found = self._find(program)
        if EVERYTHING not in self.rules and not self._admits(program, found):
            raise CannotRunError(
                f"program {program!r} is not allowed on this worker. "
                f"To allow it, start {self.command} with --allow {shlex.quote(program)}"
            )
        if found is None:
            where = "" if os.sep in program else f" on the worker's PATH ({self.search_path})"
            raise CannotRunError(f"program {program!r} does not exist{where}, or is not executable")
        return found

    def _admits(self, program: str, found: str | None) -> bool:
        if program in self.rules or found in self.rules:
            return True
        names = (rule for rule in self.rules if os.sep not in rule)
        return found is not None and any(self._find(name) == found for name in names)

    def _find(self, program: str) -> str | None:
        if os.sep in program and not PurePath(program).is_absolute():
            raise CannotRunError(f"program {program!r} is a relative path; write an absolute path or a bare name")
        return shutil.which(program, path=self.search_path) if program else None
