"""What can go wrong, said so that a person can mend it.

`Place` and `Problem` describe faults in files; the exceptions below are for programs: one class per remedy, not per
place of origin. Every floor of the house may import this module, so it uses the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How much a problem matters: an error stops the definition, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A spot in a file. `line` and `column` count from 1; `length` is how many characters a caret should underline."""

    file: str
    line: int = 1
    column: int = 1
    length: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of one definition or file, with its rule id and the way to mend it.

    `rule` is stable and documented (`schema.unknown-field`); `where` is the field's dotted path (may be empty);
    `what` says what is wrong and names the value; `mend` says what to write instead.
    """

    rule: str
    place: Place
    where: str
    what: str
    mend: str
    severity: Severity = Severity.ERROR
    allowed: tuple[str, ...] = ()
    """The names that may stand there, where the name itself is what is wrong."""

    def __str__(self) -> str:
        """Give the one-line form: `file:line:column: where: what. mend`."""
        where = f"{self.where}: " if self.where else ""
        end = "" if self.mend.endswith(("?", "!", ".")) else "."
        return f"{self.place}: {where}{self.what}. {self.mend}{end}"


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems by place, then by rule, so that every report has the same order."""
    return sorted(problems, key=lambda problem: (problem.place, problem.rule, problem.what))


class ReconcilerError(Exception):
    """Base of every error that reconciler raises on purpose; its text is fit for a person."""


class UsageError(ReconcilerError):
    """The caller asked for something that makes no sense; the remedy is another command line (exit 64)."""


class InvalidSettingsError(UsageError):
    """`reconciler.yaml` is wrong; the text is a whole report, one frame per problem (exit 64)."""


class InvalidDefinitionsError(ReconcilerError):
    """Definitions are invalid; `problems` holds every one of them, in order (exit 1)."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = in_order(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class RefusedError(ReconcilerError):
    """A guard refused to act: deletion guard, protected definition, changed plan digest (exit 3)."""


class StoreUnavailableError(ReconcilerError):
    """The store cannot be reached or did not answer in time; trying again later may help (exit 4)."""


class SchemaVersionError(ReconcilerError):
    """The store's schema is older or newer than this program; the text names the command to run (exit 4)."""


class NotLeaderError(ReconcilerError):
    """This process no longer holds the leader's term; the new leader will do the work."""


class SessionLostError(ReconcilerError):
    """The node session's lease is over or was never granted; stop its jobs and register again."""


class NotFoundError(ReconcilerError):
    """Nothing of that name or id exists (exit 1)."""


class KeyTakenError(ReconcilerError):
    """Another transaction took the same idempotency key first; `Database.tx` runs the whole step again."""
