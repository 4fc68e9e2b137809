"""One field of a cron expression: its words, its ranges, and what is refused rather than guessed at.

Refused where tools disagree: a step on a single number (`5/15`), a range of numbers that runs backwards (`22-2`), a
step of zero or one that never takes a second step. Names may wrap around (`FRI-MON`); Sunday as an upper bound is 7.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.schedule import TimingError


class CronError(TimingError):
    """A cron expression is refused; `field` says which part (empty: the whole)."""

    def __init__(self, rule: str, what: str, mend: str, *, field: str = "", offset: int = 0, length: int = 1) -> None:
        super().__init__(rule, what, mend, offset=offset, length=length)
        self.field = field


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of the expression and where it begins."""

    text: str
    offset: int

    def part(self, start: int, end: int | None = None) -> Word:
        """Give a piece of this piece."""
        return Word(self.text[start:end], self.offset + start)


@dataclass(frozen=True, slots=True)
class Field:
    """What one position of the expression may hold. `last` is what a star reaches, `bound` the largest number."""

    name: str
    first: int
    last: int
    bound: int
    names: Mapping[str, int] = field(default_factory=dict)
    later: str = ""
    """Letters that the full grammar gives a meaning here, refused until it is built."""


_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

MINUTE: Final = Field("minute", 0, 59, 59, later="H")
HOUR: Final = Field("hour", 0, 23, 23, later="H")
DAY: Final = Field("day of month", 1, 31, 31, later="LWH?")
MONTH: Final = Field("month", 1, 12, 12, {name: at for at, name in enumerate(_MONTHS, 1)}, later="H")
WEEKDAY: Final = Field("day of week", 0, 6, 7, {name: at for at, name in enumerate(_WEEKDAYS)}, later="LH?#")
FIELDS: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


def field_mask(field: Field, word: Word) -> int:
    """Compile one field to a mask. Raises CronError."""
    mask = 0
    start = 0
    for item in word.text.split(","):
        for value in _values(field, word.part(start, start + len(item))):
            mask |= 1 << value
        start += len(item) + 1
    return mask


def _values(field: Field, item: Word) -> list[int]:
    """List the values of one list item, turned into the field's range."""
    if not item.text:
        raise _refused(
            field, item, "cron.value", what=f"{field.name} has an empty list item", mend="Take the extra comma out"
        )
    _refuse_later(field, item)
    base_text, slash, step_text = item.text.partition("/")
    base = item.part(0, len(base_text))
    step = _step(field, item.part(len(base_text) + 1)) if slash else 1
    if base.text == "*":
        low, high = field.first, field.last
    else:
        low, high = _range(field, base, step)
        if slash and "-" not in base.text:
            mend = f"Write {low}-{field.last}/{step_text}"
            what = f'{field.name} "{item.text}" puts a step on a single value, which tools read in three ways'
            raise _refused(field, item, "cron.step", what=what, mend=mend)
    if slash and step > high - low:
        what = f"{field.name} step {step} is larger than the range {low}-{high}: only {low} would match"
        mend = f"Write {low}, or a step of at most {max(1, high - low)}"
        raise _refused(field, item, "cron.step", what=what, mend=mend)
    size = field.last - field.first + 1
    return [field.first + (value - field.first) % size for value in range(low, high + 1, step)]


def _step(field: Field, word: Word) -> int:
    if not (word.text.isascii() and word.text.isdigit()):
        what = f'{field.name} step "{word.text}" is no whole number'
        raise _refused(field, word, "cron.step", what=what, mend=f"Write a step of 1-{field.last - field.first}")
    step = int(word.text)
    if step == 0:
        what = f"{field.name} step {word.text} would never move on"
        raise _refused(field, word, "cron.step", what=what, mend=f"Write a step of 1-{field.last - field.first}")
    return step


def _range(field: Field, word: Word, step: int) -> tuple[int, int]:
    """Give low and high of `a` or `a-b`; high goes beyond the field's end where a range of names wraps around."""
    low_text, dash, high_text = word.text.partition("-")
    low_word, high_word = word.part(0, len(low_text)), word.part(len(low_text) + 1)
    low = _value(field, low_word)
    if not dash:
        return low, low
    high = _value(field, high_word)
    size = field.last - field.first + 1
    if field is WEEKDAY and high == 0 and low > 0 and not high_text.isdigit():
        high = size  # Sunday as an upper bound
    if low <= high:
        return low, high
    if not (low_text.isdigit() or high_text.isdigit()):
        return low, high + size
    what = f'{field.name} range "{word.text}" runs backwards'
    raise _refused(field, word, "cron.range", what=what, mend=f"Write {_split_out(field, low, high, step)}")


def _split_out(field: Field, low: int, high: int, step: int) -> str:
    """Write a backward range as what its author most likely means."""
    if step > 1:
        size = field.last - field.first + 1
        return ",".join(str(field.first + (at - field.first) % size) for at in range(low, high + size + 1, step))
    if field is WEEKDAY and high == 0:
        return f"{low}-7"
    if field is WEEKDAY and low == field.bound:
        return f"0-{high}"
    return f"{_span(low, field.last)},{_span(field.first, high)}"


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _value(field: Field, word: Word) -> int:
    """Read a number or a name."""
    text = word.text
    if text.isascii() and text.isdigit():
        value = int(text)
        if not field.first <= value <= field.bound:
            allowed = f"{field.first}-{field.bound}"
            mend = f"Write {allowed}, a list, a range or */n"
            raise _refused(field, word, "cron.value", what=f"{field.name} {text} is outside {allowed}", mend=mend)
        return value
    if text.upper() in field.names:
        return field.names[text.upper()]
    near = difflib.get_close_matches(text.upper()[:10], field.names, n=1)
    allowed = f"{field.first}-{field.bound}" + (f" or {'/'.join(field.names)}" if field.names else "")
    mend = f"Did you mean {near[0]}?" if near else f"Write {allowed}, a list, a range or */n"
    what = f'{field.name} "{text}" is no number' + (" or name" if field.names else "")
    raise _refused(field, word, "cron.value", what=what, mend=mend)


def _refuse_later(field: Field, item: Word) -> None:
    """Refuse what the full grammar will allow, and never read it as something else."""
    rest = item.text.upper()
    for name in field.names:
        rest = rest.replace(name, "")
    letters = rest.translate(dict.fromkeys(map(ord, "0123456789-/()*")))
    if letters and set(letters) <= set(field.later):
        what = f'{field.name} "{item.text}" is not supported yet'
        mend = "Write numbers, names, lists, ranges and steps" if field.names else "Write numbers, lists, ranges, steps"
        raise _refused(field, item, "cron.not-yet", what=what, mend=mend)


def _refused(field: Field, word: Word, rule: str, *, what: str, mend: str) -> CronError:
    return CronError(rule, what, mend, field=field.name, offset=word.offset, length=len(word.text))
