"""One field of a cron expression: its words, its ranges, and what is refused rather than guessed at.

Refused where tools disagree: a step on a single number (`5/15`), a range of numbers that runs backwards (`22-2`), a
step of zero or one that never takes a second step. Names may wrap around (`FRI-MON`); Sunday as an upper bound is 7.
`H` stands for a value drawn from a seed text: the same on every machine.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from reconciler.schedule import TimingError
from reconciler.schedule.crondates import FromLast, LastWeekday, NearestWorkday, NthWeekday, PlacedDay, Values


class CronError(TimingError):
    """A cron expression is refused; `field` says which part (empty: the whole)."""

    def __init__(self, rule: str, what: str, mend: str, *, field: str = "", offset: int = 0, length: int = 1) -> None:
        super().__init__(rule, what, mend, offset=offset, length=length)
        self.field = field

    def moved_by(self, offset: int) -> CronError:
        """Give the same error for a text in which this one begins at `offset`."""
        return CronError(
            self.rule, self.what, self.mend, field=self.field, offset=self.offset + offset, length=self.length
        )


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of a field and where it begins."""

    text: str
    offset: int

    def part(self, start: int, end: int | None = None) -> Word:
        return Word(self.text[start:end], self.offset + start)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """What one position of the expression may hold. `last` is what a star reaches, `bound` the largest number."""

    name: str
    first: int
    last: int
    bound: int
    names: Mapping[str, int] = field(default_factory=dict)
    last_hashed: int = 0
    """What a plain `H` reaches: no later than the 28th, so that it comes in every month."""

    @property
    def size(self) -> int:
        return self.last - self.first + 1


_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKS: Final = 5
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

SECOND: Final = Field("second", 0, 59, 59, last_hashed=59)
MINUTE: Final = Field("minute", 0, 59, 59, last_hashed=59)
HOUR: Final = Field("hour", 0, 23, 23, last_hashed=23)
DAY: Final = Field("day of month", 1, 31, 31, last_hashed=28)
MONTH: Final = Field("month", 1, 12, 12, {name: at for at, name in enumerate(_MONTHS, 1)}, last_hashed=12)
WEEKDAY: Final = Field("day of week", 0, 6, 7, {name: at for at, name in enumerate(_WEEKDAYS)}, last_hashed=6)
FIELDS: Final = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


@lru_cache(maxsize=8192)
def field_values(field: Field, text: str, seed: str) -> Values:
    """Compile one field; `seed` decides what `H` means. Raises CronError with a place inside `text`."""
    mask = 0
    placed: list[PlacedDay] = []
    start = 0
    if text == "?" and field in {DAY, WEEKDAY}:
        text = "*"
    for text_of_item in text.split(","):
        item = Word(text_of_item, start)
        start += len(text_of_item) + 1
        if (day := _placed_day(field, item)) is not None:
            placed.append(day)
        else:
            for value in _values(field, item, seed):
                mask |= 1 << field.first + (value - field.first) % field.size
    return Values(mask, tuple(placed))


def draw(seed: str, salt: str, below: int) -> int:
    """Draw a number below `below` from a seed: the same on every machine, at any time."""
    return int.from_bytes(hashlib.sha256(f"{salt}\n{seed}".encode(errors="surrogatepass")).digest()[:8]) % below


def _placed_day(field: Field, item: Word) -> PlacedDay | None:
    """Read `L`, `L-3`, `LW` and `15W`, or `5#3` and `5L`; None for an item that is none of these."""
    text = item.text.upper()
    if field is DAY and ("L" in text or "W" in text):
        return _day_of_month(item, text)
    if field is WEEKDAY and ("#" in text or text.endswith("L")):
        return _day_of_week(item, text)
    return None


def _day_of_month(item: Word, text: str) -> PlacedDay:
    back = text.removeprefix("L-")
    if text in {"L", "LW"}:
        return FromLast(0) if text == "L" else NearestWorkday(None)
    if text.startswith("L-") and _is_number(back):
        if not 1 <= int(back) < DAY.last:
            what = f'{DAY.name} "{item.text}" counts {back} days back, outside 1-{DAY.last - 1}'
            mend = "Write L for the last day, or L-1 to L-30"
            raise _refused(DAY, item, "cron.value", what=what, mend=mend)
        return FromLast(int(back))
    if text.endswith("W") and _is_number(text[:-1]):
        return NearestWorkday(_value(DAY, item.part(0, len(text) - 1)))
    what = f'{DAY.name} "{item.text}" is no day'
    mend = "Write L (last day), L-3 (third before it), LW (last workday) or 15W (nearest workday), each by itself"
    raise _refused(DAY, item, "cron.value", what=what, mend=mend)


def _day_of_week(item: Word, text: str) -> PlacedDay:
    name, hash_mark, nth = text.partition("#")
    if not hash_mark:
        name = text[:-1]
    if not name or (hash_mark and not _is_number(nth)) or "/" in text or ("-" in text and not name.startswith("-")):
        what = f'{WEEKDAY.name} "{item.text}" is no day'
        mend = "Write 5L (last Friday) or 5#3 (third Friday), each by itself; the last day of a week is 6"
        raise _refused(WEEKDAY, item, "cron.value", what=what, mend=mend)
    weekday = _value(WEEKDAY, item.part(0, len(name))) % WEEKDAY.size
    if not hash_mark:
        return LastWeekday(weekday)
    if not 1 <= int(nth) <= _WEEKS:
        what = f'{WEEKDAY.name} "{item.text}" asks for number {nth}, outside 1-{_WEEKS}'
        mend = f"Write {item.text[: len(name)]}#1 to {item.text[: len(name)]}#{_WEEKS}, or {item.text[: len(name)]}L"
        raise _refused(WEEKDAY, item, "cron.value", what=what, mend=mend)
    return NthWeekday(weekday, int(nth))


def _values(field: Field, item: Word, seed: str) -> range:
    """List the values of one list item; those beyond the field's end wrap around."""
    if not item.text:
        what = f"{field.name} has an empty list item"
        raise _refused(field, item, "cron.value", what=what, mend="Take the extra comma out")
    base_text, slash, step_text = item.text.partition("/")
    base = item.part(0, len(base_text))
    step = _step(field, item.part(len(base_text) + 1)) if slash else 1
    is_hashed = base_text[0:1] in {"H", "h"}
    if is_hashed:
        low, high = _hashed_range(field, base)
    elif base_text == "*":
        low, high = field.first, field.last
    elif "?" in item.text:
        raise _question_mark(field, item)
    else:
        low, high = _range(field, base, step)
        if slash and "-" not in base_text:
            mend = f"Write {low}-{field.last}/{step_text}"
            what = f'{field.name} "{item.text}" puts a step on a single value, which tools read in three ways'
            raise _refused(field, item, "cron.step", what=what, mend=mend)
    if slash and step > high - low:
        alone = "H" if is_hashed else low
        what = f"{field.name} step {step} is larger than the range {low}-{high}: only {alone} would match"
        mend = f"Write {alone}, or a step of at most {max(1, high - low)}"
        raise _refused(field, item, "cron.step", what=what, mend=mend)
    if is_hashed:
        low += draw(seed, field.name, step if slash else high - low + 1)
        high = high if slash else low
    return range(low, high + 1, step)


def _step(field: Field, word: Word) -> int:
    mend = f"Write a step of 1-{field.last - field.first}"
    if not _is_number(word.text):
        what = f'{field.name} step "{word.text}" is no whole number'
        raise _refused(field, word, "cron.step", what=what, mend=mend)
    step = int(word.text)
    if step == 0:
        what = f"{field.name} step {word.text} would never move on"
        raise _refused(field, word, "cron.step", what=what, mend=mend)
    return step


def _hashed_range(field: Field, word: Word) -> tuple[int, int]:
    """Give what `H` or `H(0-29)` draws from."""
    inside = word.text[2:-1]
    if word.text in {"H", "h"}:
        return field.first, field.last_hashed
    if f"H({inside})" != "H" + word.text[1:] or "-" not in inside:
        what = f'{field.name} "{word.text}" is no hashed value'
        mend = f"Write H, H/n, H({field.first}-{field.last_hashed}) or H({field.first}-{field.last_hashed})/n"
        raise _refused(field, word, "cron.value", what=what, mend=mend)
    return _range(field, word.part(2, len(word.text) - 1), 1)


def _range(field: Field, word: Word, step: int) -> tuple[int, int]:
    """Give low and high of `a` or `a-b`; high goes beyond the field's end where a range of names wraps around."""
    low_text, dash, high_text = word.text.partition("-")
    low_word, high_word = word.part(0, len(low_text)), word.part(len(low_text) + 1)
    low = _value(field, low_word)
    if not dash:
        return low, low
    high = _value(field, high_word)
    if field is WEEKDAY and high == 0 and low > 0 and not high_text.isdigit():
        high = field.size  # Sunday as an upper bound
    if low <= high:
        return low, high
    if not (low_text.isdigit() or high_text.isdigit()):
        return low, high + field.size
    what = f'{field.name} range "{word.text}" runs backwards'
    raise _refused(field, word, "cron.range", what=what, mend=f"Write {_split_out(field, low, high, step)}")


def _split_out(field: Field, low: int, high: int, step: int) -> str:
    """Write a backward range as what its author most likely means."""
    if step > 1:
        return ",".join(
            str(field.first + (at - field.first) % field.size) for at in range(low, high + field.size + 1, step)
        )
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
    if _is_number(text):
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


def _question_mark(field: Field, item: Word) -> CronError:
    if field in {DAY, WEEKDAY}:
        what, mend = f'{field.name} "{item.text}" makes "?" a part of something', 'Let "?" stand alone, or write "*"'
    else:
        what, mend = f'{field.name} has a "?", which only the day fields may hold', 'Write "*"'
    return _refused(field, item, "cron.value", what=what, mend=mend)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _refused(field: Field, word: Word, rule: str, *, what: str, mend: str) -> CronError:
    return CronError(rule, what, mend, field=field.name, offset=word.offset, length=len(word.text))
