"""The five time fields of a crontab, by Vixie's rules: which values they mean, and how our files write the same.

Law: the values are read from the crontab's own text and never from what is written, so that they can judge it.
What no cron accepts, or each reads in its own way, is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MACROS: Final = {
    "hourly": "0 * * * *",
    "daily": "0 0 * * *",
    "midnight": "0 0 * * *",
    "weekly": "0 0 * * 0",
    "monthly": "0 0 1 * *",
    "yearly": "0 0 1 1 *",
    "annually": "0 0 1 1 *",
    "every_minute": "* * * * *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WEEK: Final = 7
_LONGEST_NUMBER: Final = 9
_NIGHT: Final = frozenset(range(4))
"""The hours in which the clocks of nearly all zones change."""


class FieldError(Exception):
    """A field is refused; `offset` and `length` point into its text."""

    def __init__(self, what: str, mend: str, *, offset: int = 0, length: int = 1) -> None:
        super().__init__(what)
        self.what = what
        self.mend = mend
        self.offset = offset
        self.length = max(1, length)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What one position may hold."""

    name: str
    first: int
    last: int
    names: Mapping[str, int] = field(default_factory=dict)

    @property
    def largest_step(self) -> int:
        """A larger step over a star takes no second step; 7 is Sunday again."""
        return (_WEEK - 1 if self is _WEEKDAY else self.last) - self.first


_MINUTE: Final = _Kind("minute", 0, 59)
_HOUR: Final = _Kind("hour", 0, 23)
_DAY: Final = _Kind("day of month", 1, 31)
_MONTH: Final = _Kind("month", 1, 12, {name: at for at, name in enumerate(_MONTHS, 1)})
_WEEKDAY: Final = _Kind("day of week", 0, 7, {name: at for at, name in enumerate(_WEEKDAYS)})
_KINDS: Final = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True)
class Field:
    """One field: what the crontab says, which values that means, and the text by which our files say so."""

    written: str
    values: frozenset[int]
    text: str
    notes: Sequence[str] = ()

    @property
    def is_star(self) -> bool:
        return self.written.startswith("*")


@dataclass(frozen=True, slots=True)
class Times:
    """When an entry fires, by the clock on the wall."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def needs_both_days(self) -> bool:
        """Vixie's day rule: a day field that begins with a star lets both count, otherwise either is enough."""
        return self.day.is_star or self.weekday.is_star

    @property
    def notes(self) -> list[str]:
        return [note for each in self._fields for note in each.notes]

    @property
    def _fields(self) -> tuple[Field, ...]:
        return (self.minute, self.hour, self.day, self.month, self.weekday)

    def timing(self) -> dict[str, Any]:
        """Give the fields of a trigger that fires at these times."""
        timing: dict[str, Any] = {"cron": " ".join(each.text for each in self._fields)}
        if self.needs_both_days and not (self.day.text.startswith("*") or self.weekday.text.startswith("*")):
            timing["dayRule"] = "And"
        if (self.minute.is_star or self.hour.is_star) and not self.hour.text.startswith("*"):
            # Such entries are wildcards to cron: through a clock change they fire whenever the wall shows their time.
            timing["dst"] = {"gap": "Skip", "overlap": "Both"}
        elif not self.hour.text.startswith("*") and not self.hour.values.isdisjoint(_NIGHT):
            timing["dst"] = {"gap": "RunAfter", "overlap": "First"}  # the default; said, since the hours are those
        return timing


def read_times(words: Sequence[tuple[str, int]], seed: str) -> Times:
    """Read five fields, each with its offset; `seed` decides what random ranges draw. Raises FieldError."""
    read = []
    for kind, (text, offset) in zip(_KINDS, words, strict=True):
        try:
            read.append(_read(kind, text, seed))
        except FieldError as error:
            at = error.offset + offset
            raise FieldError(error.what, error.mend, offset=at, length=error.length) from None
    return Times(*read)


def _read(kind: _Kind, text: str, seed: str) -> Field:
    values: set[int] = set()
    texts, notes = [], []
    offset = 0
    for item in text.split(","):
        try:
            found, spelled, note = _item(kind, item, seed)
        except FieldError as error:
            raise FieldError(f"{kind.name} {error.what}", error.mend, offset=offset, length=len(item)) from None
        values.update(each % _WEEK if kind is _WEEKDAY else each for each in found)
        texts.append(spelled)
        notes += [note] if note else []
        offset += len(item) + 1
    return Field(text, frozenset(values), ",".join(texts), notes)


def _item(kind: _Kind, item: str, seed: str) -> tuple[range, str, str]:
    """Read one item of a list: its values, how we write it, and what is to be told of that."""
    base, slash, step_text = item.partition("/")
    step = _step(item, step_text) if slash else 1
    if "~" in base:
        return _drawn(kind, item, base, step if slash else None, seed=seed)
    if base == "*":
        low, high, most = kind.first, kind.last, kind.largest_step
    else:
        low, high = _range(kind, item, base)
        most = high - low
    found = range(low, high + 1, step)
    if slash and "-" not in base and base != "*":
        mend = f"Write {low}-{kind.last}/{step_text} or {low}"
        raise FieldError(f'"{item}" puts a step on a single value, which crons read in different ways', mend)
    if slash and step > most:
        return found, str(low), f'"{item}" ({kind.name}) takes no second step, so it is written as {low}.'
    return found, item, ""


def _drawn(kind: _Kind, item: str, base: str, step: int | None, *, seed: str) -> tuple[range, str, str]:
    """Draw once what cron draws whenever it reads the file: one value, or where the steps begin."""
    low_text, _, high_text = base.partition("~")
    low = _value(kind, item, low_text) if low_text else kind.first
    high = _value(kind, item, high_text) if high_text else min(kind.last, kind.first + kind.largest_step)
    if low > high:
        raise FieldError(f'"{item}" runs backwards', f"Write {high}~{low}")
    last = high if step is None else min(high, low + step - 1)
    digest = hashlib.sha256(f"{kind.name}\n{item}\n{seed}".encode()).digest()
    start = low + int.from_bytes(digest[:8]) % (last - low + 1)
    found = range(start, start + 1) if step is None else range(start, high + 1, step)
    spelled = str(start) if len(found) == 1 else f"{start}-{high}/{step}"
    hashed = f"H({low}-{high})" + (f"/{step}" if step is not None and step <= high - low else "")
    told = f'"{item}" ({kind.name}) is random in cron; drawn here: {spelled}. {hashed} would draw by the job\'s name.'
    return found, spelled, told


def _step(item: str, text: str) -> int:
    if not (_is_number(text) and int(text)):
        raise FieldError(f'"{item}" has no step that moves on', "Write a whole number above zero behind the slash")
    return int(text)


def _range(kind: _Kind, item: str, base: str) -> tuple[int, int]:
    low_text, dash, high_text = base.partition("-")
    low = _value(kind, item, low_text)
    if not dash:
        return low, low
    high = _value(kind, item, high_text)
    if kind is _WEEKDAY and high == 0 and not _is_number(high_text):
        high = _WEEK if low else 0  # Sunday as the end of a week
    if low > high:
        last = _WEEK - 1 if kind is _WEEKDAY else kind.last
        mend = f"Write {_span(low, last)},{_span(kind.first, high)}, if that is meant"
        raise FieldError(f'"{item}" runs backwards, which no cron accepts', mend)
    return low, high


def _span(low: int, high: int) -> str:
    return str(low) if low >= high else f"{low}-{high}"


def _value(kind: _Kind, item: str, text: str) -> int:
    named = f" or {'/'.join(name.upper() for name in kind.names)}" if kind.names else ""
    mend = f"Write {kind.first}-{kind.last}{named}, a list, a range or */n"
    if text.lower() in kind.names:
        return kind.names[text.lower()]
    if not _is_number(text):
        raise FieldError("has an empty list item" if not item else f'"{item}" is nothing that cron reads', mend)
    if not kind.first <= int(text) <= kind.last:
        raise FieldError(f"{text} is outside {kind.first}-{kind.last}", mend)
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
