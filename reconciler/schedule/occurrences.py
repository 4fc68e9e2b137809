"""The instants at which a trigger fires: its slots, as integer microseconds since the epoch.

Law S5: slots are a pure function of the timing, the zone's rules and the range, and additive over ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from reconciler.clock import YEARS, to_us
from reconciler.model.definition import AtTiming, CronTiming, EveryTiming, Timing
from reconciler.schedule import TimingError
from reconciler.schedule.cron import parse
from reconciler.schedule.cronslots import CronOccurrences
from reconciler.schedule.zones import LAST_US, instants_of, load_zone

_SHAPE: Final = "dddd-dd-ddTdd:dd"
_FULL_SHAPE: Final = "dddd-dd-ddTdd:dd:dd"
_OFFSET_SHAPE: Final = "+dd:dd"
_FRACTION_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class EveryOccurrences:
    """The slots of an interval, counted in elapsed time: `first_us`, and then one each `interval_us`."""

    first_us: int
    interval_us: int

    def next_after(self, after_us: int) -> int | None:
        """Give the first slot strictly later than `after_us`; None when there is no more."""
        passed = max(0, (after_us - self.first_us) // self.interval_us + 1)
        slot = self.first_us + passed * self.interval_us
        return slot if slot < LAST_US else None

    def previous_before(self, before_us: int) -> int | None:
        """Give the last slot strictly earlier than `before_us`; None when there is none."""
        passed = (min(before_us, LAST_US) - 1 - self.first_us) // self.interval_us
        return self.first_us + passed * self.interval_us if passed >= 0 else None

    def between(self, after_us: int, until_us: int, *, limit: int) -> list[int]:
        """List at most `limit` slots, oldest first, that are later than `after_us` and not later than `until_us`."""
        first = self.next_after(after_us)
        if first is None:
            return []
        return list(range(first, min(until_us, LAST_US - 1) + 1, self.interval_us)[:limit])

    def skipped_between(self, after_us: int, until_us: int, *, limit: int) -> list[int]:  # noqa: ARG002 - as for cron
        """Elapsed time skips nothing."""
        return []


@dataclass(frozen=True, slots=True)
class AtOccurrences:
    """The one slot of a one-off trigger."""

    slot_us: int

    def next_after(self, after_us: int) -> int | None:
        """Give the slot when it is strictly later than `after_us`."""
        return self.slot_us if self.slot_us > after_us else None

    def previous_before(self, before_us: int) -> int | None:
        """Give the slot when it is strictly earlier than `before_us`."""
        return self.slot_us if self.slot_us < before_us else None

    def between(self, after_us: int, until_us: int, *, limit: int) -> list[int]:
        """List the slot when it is later than `after_us` and not later than `until_us`."""
        return [self.slot_us][:limit] if after_us < self.slot_us <= until_us else []

    def skipped_between(self, after_us: int, until_us: int, *, limit: int) -> list[int]:  # noqa: ARG002 - as for cron
        """A local time that the clocks skip is refused, so none is left."""
        return []


Occurrences = CronOccurrences | EveryOccurrences | AtOccurrences


def compile_timing(timing: Timing, *, activated_us: int, seed: str = "") -> Occurrences:
    """Turn a trigger's timing into its slots; `seed`, the definition's name, decides what `H` means in a cron.

    An interval without an anchor counts from `activated_us` and fires one interval later; with one, its first slot is
    the anchor itself. Raises TimingError (CronError, ZoneError) for texts that make no sense.
    """
    match timing:
        case CronTiming(expression, time_zone, gap, overlap, day_rule):
            cron = parse(expression, day_rule=day_rule, seed=seed)
            return CronOccurrences(cron, load_zone(time_zone), gap, overlap)
        case EveryTiming(interval_us, anchor):
            first_us = activated_us + interval_us if anchor is None else parse_instant(anchor)
            return EveryOccurrences(first_us, interval_us)
        case AtTiming(at, time_zone):
            return AtOccurrences(parse_at(at, load_zone(time_zone)))


def parse_instant(text: str) -> int:
    """Read an instant with an offset. Raises TimingError."""
    moment = _moment("timing.instant", text)
    if moment.tzinfo is None:
        raise TimingError(
            "timing.instant",
            f'"{text}" has no offset',
            f'Write "{text}Z", or an offset such as +01:00',
            length=len(text),
        )
    return to_us(moment)


def parse_at(text: str, zone: ZoneInfo) -> int:
    """Read an instant: with an offset, or local to `zone` (the first of two equal local times). Raises TimingError."""
    moment = _moment("timing.at", text)
    if moment.tzinfo is not None:
        return to_us(moment)
    instants = instants_of(zone, to_us(moment.replace(tzinfo=UTC)))
    if not instants:
        raise TimingError(
            "timing.no-such-time",
            f'"{text}" does not exist in {zone.key}: the clocks skip it',
            "Write another time, or an offset such as +01:00",
            length=len(text),
        )
    return instants[0]


def _moment(rule: str, text: str) -> datetime:
    """Read the one accepted form, `2026-12-31T23:00[:00[.000000]]` and perhaps an offset."""
    clock, offset = _without_offset(text)
    whole, point, fraction = clock.partition(".")
    shaped = _has_shape(whole, _FULL_SHAPE) or (not point and _has_shape(whole, _SHAPE))
    if point:
        shaped = shaped and fraction.isascii() and fraction.isdigit() and len(fraction) <= _FRACTION_DIGITS
    if not shaped:
        what = f'"{text}" is no instant'
        mend = 'Write it as "2026-12-31T23:00:00+01:00", or ending in Z for UTC'
        if _has_shape(text, "dddd-dd-dd"):
            what, mend = f'"{text}" is a date without a time', f'Write the time too: "{text}T00:00:00Z"'
        raise TimingError(rule, what, mend, length=len(text))
    try:
        moment = datetime.fromisoformat(f"{whole}.{fraction.ljust(_FRACTION_DIGITS, '0')}" if point else whole)
    except ValueError as error:
        what = f'"{text}" does not exist: {error}'
        raise TimingError(rule, what, "Write a date and time that exist", length=len(text)) from error
    if moment.year not in YEARS:
        what = f'"{text}" is outside the years {YEARS[0]}-{YEARS[-1]}'
        raise TimingError(rule, what, "Write a year in that range", length=len(text))
    try:
        return datetime.fromisoformat(moment.isoformat() + offset)
    except ValueError as error:
        what = f'"{text}" has an offset that cannot be'
        raise TimingError(rule, what, "Write an offset such as +01:00", length=len(text)) from error


def _without_offset(text: str) -> tuple[str, str]:
    if text.endswith("Z"):
        return text[:-1], "+00:00"
    tail = text[-len(_OFFSET_SHAPE) :]
    if _has_shape(tail.replace("-", "+", 1), _OFFSET_SHAPE):
        return text[: -len(_OFFSET_SHAPE)], tail
    return text, ""


def _has_shape(text: str, shape: str) -> bool:
    return len(text) == len(shape) and all(
        character in "0123456789" if wanted == "d" else character == wanted
        for character, wanted in zip(text, shape, strict=True)
    )
