"""Text to entries: the lines of a crontab as cron reads them, with what holds for each.

Assignments hold for the entries below them. What is wrong is collected with its place; a line that is wrong, or that
names no time, becomes a `LeftOut`, so that whoever writes the rest can say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import Place, Problem
from reconciler.schedule import TimingError
from reconciler.schedule.cron import parse
from reconciler.schedule.zones import load_zone
from reconciler.spec.crontab.fields import MACROS, FieldError, Times, read_times
from reconciler.spec.crontab.secrets import covered, secrets_in
from reconciler.spec.payload import looks_secret
from reconciler.spec.source import lines_of_text

_FIELDS: Final = 5
_ASSIGNMENT: Final = re.compile(r"[ \t]*(?:\"([^\"=]*)\"|'([^'=]*)'|([^\s=\"'][^\s=]*))[ \t]*=[ \t]*(.*)$")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_WORD: Final = re.compile(r"[^ \t]+")
_ZONE: Final = "CRON_TZ"
_UP_TO_PERCENT: Final = re.compile(r"(?:\\.|[^%\\]|\\$)*")
_ESCAPED: Final = re.compile(r"\\(.)")
_LINE_END: Final = re.compile(r"(?<!\\)%")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: where it stands, when it fires, what it runs, and the assignments that held there."""

    line: int
    text: str
    times: Times
    command: str
    stdin: str | None
    user: str | None
    zone: str
    machine_zone: str
    """That of the command itself: `CRON_TZ` moves the times alone."""
    environment: Mapping[str, str]
    is_quiet: bool
    remarks: Sequence[str] = ()
    """The comments right above it."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line that becomes no job, and why."""

    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Crontab:
    """What a file holds, in order. `problems` are those of its lines; each such line is left out."""

    file: str
    entries: Sequence[Entry]
    left_out: Sequence[LeftOut]
    problems: Sequence[Problem]
    text: str = field(repr=False)
    """For reports: what looks like a secret is covered."""


def read_crontab(file: str, content: bytes, *, system: bool, zone: str) -> Crontab:
    """Read a crontab; with `system` its entries name a user. `zone` is that of the machine whose cron read it."""
    reader = _Reader(file, system, zone)
    lines = lines_of_text(content.decode("utf-8-sig", errors="replace"))
    for number, text in enumerate(lines, 1):
        reader.read(number, text)
    shown = "\n".join(reader.shown(text) for text in lines)
    return Crontab(file, reader.entries, reader.left_out, reader.problems, shown)


class _Refused(Exception):
    def __init__(self, rule: str, what: str, mend: str, *, column: int = 1, length: int = 1) -> None:
        super().__init__(what)
        self.rule = rule
        self.what = what
        self.mend = mend
        self.column = column
        self.length = max(1, length)


@dataclass(slots=True)
class _Reader:
    """Reads line by line; keeps what was assigned so far."""

    file: str
    system: bool
    machine_zone: str
    entries: list[Entry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _environment: dict[str, str] = field(default_factory=dict)
    _zone: str | None = None
    _remarks: list[str] = field(default_factory=list)
    _broken_zone: int = 0
    """The line of the assignment that hides in which zone the entries below it are."""

    def read(self, number: int, text: str) -> None:
        stripped = text.strip(" \t")
        if not stripped or stripped.startswith("#"):
            self._remarks = [*self._remarks, stripped.lstrip("# \t")] if stripped.strip("# \t") else []
            return
        try:
            if (assigned := _ASSIGNMENT.match(text)) is not None:
                self._assign(number, assigned)
            elif self._broken_zone:
                why = f"its time zone is not known, because line {self._broken_zone} is wrong"
                self.left_out.append(LeftOut(number, covered(stripped), why))
            else:
                self._entry(number, text)
        except _Refused as refused:
            place = Place(self.file, number, refused.column, refused.length)
            what, mend = covered(refused.what), covered(refused.mend)  # they quote the line
            self.problems.append(Problem(refused.rule, place, "", what, mend))
            self.left_out.append(LeftOut(number, self.shown(stripped), f"{what}. {mend}"))
        self._remarks = []

    @staticmethod
    def shown(text: str) -> str:
        """Give a line as it may be shown, without what looks like a secret; columns stay."""
        assigned = _ASSIGNMENT.match(text)
        if assigned is not None and looks_secret(assigned[1] or assigned[2] or assigned[3], _unquoted(assigned[4])):
            return text[: assigned.start(4)] + "*" * len(assigned[4])
        return covered(text)

    def _assign(self, number: int, assigned: re.Match[str]) -> None:
        name = next(each for each in assigned.groups()[:3] if each is not None)
        value, column = _unquoted(assigned[4].rstrip()), assigned.start(4) + 1
        if "\ufffd" in assigned[0]:
            raise _Refused("crontab.encoding", "the line is not UTF-8", "Save the file as UTF-8")
        if not _NAME.fullmatch(name):
            mend = "Use letters, digits and _, or take the line out"
            at = assigned.start() + len(assigned[0]) - len(assigned[0].lstrip(" \t")) + 1
            raise _Refused("crontab.variable", f'"{name}" is no name of a variable', mend, column=at, length=len(name))
        if name == _ZONE:
            self._assign_zone(number, value, column)
        else:
            self._environment[name] = value

    def _assign_zone(self, number: int, value: str, column: int) -> None:
        self._broken_zone = 0
        self._zone = value or None
        if value:
            try:
                load_zone(value)
            except TimingError as error:
                self._broken_zone = number
                raise _Refused(error.rule, error.what, error.mend, column=column, length=len(value)) from error

    def _entry(self, number: int, text: str) -> None:
        if "\ufffd" in text or "\0" in text:
            raise _Refused("crontab.encoding", "the line is no plain UTF-8 text", "Save the file as UTF-8")
        start = len(text) - len(text.lstrip(" \t"))
        is_quiet = text[start] == "-"
        times, rest = self._times(number, text, start + is_quiet)
        if times is None:
            return
        user = None
        if self.system:
            user, rest = self._user(text, rest)
        command, stdin = _split_at_percent(text[rest:].lstrip(" \t"))
        self._check_command(text, rest, command)
        self.entries.append(
            Entry(
                line=number,
                text=text.strip(" \t"),
                times=times,
                command=command,
                stdin=stdin,
                user=user,
                zone=self._zone or self.machine_zone,
                machine_zone=self.machine_zone,
                environment=dict(self._environment),
                is_quiet=is_quiet,
                remarks=[covered(each) for each in self._remarks],
            )
        )

    def _times(self, number: int, text: str, start: int) -> tuple[Times | None, int]:
        """Read the time fields, and say where the rest of the line begins; None for an entry that names no time."""
        words = [(found[0], found.start()) for found in _WORD.finditer(text, start)]
        first, column = words[0] if words else ("", start)
        taken = 1 if first.startswith("@") else _FIELDS
        end = words[taken - 1][1] + len(words[taken - 1][0]) if len(words) >= taken else len(text)
        if first == "@reboot":
            why = (
                "a scheduler of many nodes has no one start. Let the node's init system start it, or write when to run"
            )
            self.left_out.append(LeftOut(number, covered(text.strip(" \t")), why))
            return None, end
        if first.startswith("@"):
            if first[1:] not in MACROS:
                mend = f"Write {', '.join(f'@{name}' for name in MACROS)}, @reboot or five fields"
                what = f'"{first}" is no time that cron knows'
                raise _Refused("crontab.time", what, mend, column=column + 1, length=len(first))
            fields = [(word, 0) for word in MACROS[first[1:]].split()]
        elif len(words) < _FIELDS:
            what = "the line is neither an assignment nor five time fields and a command"
            mend = "Write minute hour day month weekday command, NAME=value, or # before a comment"
            raise _Refused("crontab.line", what, mend, column=column + 1, length=len(text) - column)
        else:
            fields = words[:_FIELDS]
        return self._checked(read_fields(fields, text), fields), end

    def _checked(self, times: Times, fields: Sequence[tuple[str, int]]) -> Times:
        """Refuse what our own grammar refuses beyond cron's: dates that never come."""
        try:
            parse(times.timing()["cron"])
        except TimingError as error:
            column, last = fields[2][1], fields[-1]
            mend = "Write a date that exists, or take the line out: cron never ran it either"
            raise _Refused(
                error.rule, error.what, mend, column=column + 1, length=last[1] + len(last[0]) - column
            ) from error
        return times

    def _user(self, text: str, rest: int) -> tuple[str, int]:
        found = _WORD.search(text, rest)
        if found is None:
            what, mend = "the entry ends after its times", "Write the user and the command behind them"
            raise _Refused("crontab.user", what, mend, column=len(text) + 1)
        if not _WORD.search(text, found.end()):
            what = f'a system crontab names a user before the command, and behind "{found[0]}" there is nothing'
            mend = "Write the user, or leave --system out"
            raise _Refused("crontab.user", what, mend, column=found.start() + 1, length=len(found[0]))
        return found[0], found.end()

    def _check_command(self, text: str, rest: int, command: str) -> None:
        found = _WORD.search(text, rest)
        if found is None or not command.strip():
            what, mend = "the entry has no command", "Write it behind the times, or take the line out"
            raise _Refused("crontab.command", what, mend, column=len(text) + 1)
        if found[0].startswith("*"):
            what, mend = "a sixth time field stands where the command begins", "Write five fields, then the command"
            raise _Refused("crontab.command", what, mend, column=found.start() + 1, length=len(found[0]))
        if not self.system and found[0] == "root":
            what, mend = 'the command begins with the user "root"', "Add --system: this is a system crontab"
            raise _Refused("crontab.user", what, mend, column=found.start() + 1, length=len(found[0]))
        if secrets := secrets_in(text):
            what = "the command holds what looks like a secret, and everybody who reads the repository would read it"
            mend = "Let the command read it from a file of the node, and replace it wherever it is valid"
            start, end = secrets[0]
            raise _Refused("crontab.secret", what, mend, column=start + 1, length=end - start)


def read_fields(fields: Sequence[tuple[str, int]], text: str) -> Times:
    """Read five time fields of a line. Raises _Refused."""
    try:
        return read_times(fields, seed=text.strip(" \t"))
    except FieldError as error:
        raise _Refused("crontab.time", error.what, error.mend, column=error.offset + 1, length=error.length) from error


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _split_at_percent(text: str) -> tuple[str, str | None]:
    r"""Split a command from its standard input as cron does, at the first `%` that is not written `\%`.

    In the input each `%` is the end of a line; cron adds the last one.
    """
    end = _UP_TO_PERCENT.match(text).end()  # type: ignore[union-attr] # it matches any text
    command = _ESCAPED.sub(lambda found: found[1] if found[1] == "%" else found[0], text[:end])
    if not (given := text[end + 1 :]):
        return command, None
    lines = (line.replace("\\%", "%") for line in _LINE_END.split(given))
    return command, "\n".join(lines).removesuffix("\n")
