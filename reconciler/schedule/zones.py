"""Time zones from the tzdata wheel, and their offsets as segments of constant offset.

The machine's own zone files are never read, so every node agrees (`tzdata_version` says on what). A name is taken
exactly as the IANA list writes it, aliases included; anything else is refused and never becomes UTC (case DST-15).
Arithmetic goes by offsets and instants in microseconds: no DST flag, no `fold`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from reconciler.clock import SECOND_US, from_us, to_us
from reconciler.schedule import TimingError

DAY_US: Final = 86_400 * SECOND_US
FIRST_US: Final = to_us(datetime.fromisoformat("0001-01-03T00:00:00Z"))
LAST_US: Final = to_us(datetime.fromisoformat("9999-01-01T00:00:00Z"))
"""Instants outside are beyond what the standard library's calendar can turn into local time."""

_CHUNK_US: Final = 366 * DAY_US
_PROBE_US: Final = 2 * DAY_US
"""No zone ever kept an offset for less than six days (tests read the raw files), so none hides between two probes."""
_SEAM_US: Final = 2 * DAY_US
_LATEST: Final[dict[ZoneInfo, Segment]] = {}
"""The segment that was used last, of each zone: time moves on slowly, so most questions are about the same one."""
_MICROSECOND: Final = timedelta(microseconds=1)
_PLACEHOLDER_ZONES: Final = frozenset({"Factory"})
_SHOWN: Final = 80

_ELSEWHERE: Final = {
    "AUS Eastern Standard Time": "Australia/Sydney",
    "Arabian Standard Time": "Asia/Dubai",
    "Argentina Standard Time": "America/Argentina/Buenos_Aires",
    "Central Europe Standard Time": "Europe/Budapest",
    "Central European Standard Time": "Europe/Warsaw",
    "Central Standard Time": "America/Chicago",
    "China Standard Time": "Asia/Shanghai",
    "E. South America Standard Time": "America/Sao_Paulo",
    "Eastern Standard Time": "America/New_York",
    "Egypt Standard Time": "Africa/Cairo",
    "FLE Standard Time": "Europe/Kiev",
    "GMT Standard Time": "Europe/London",
    "GTB Standard Time": "Europe/Bucharest",
    "India Standard Time": "Asia/Kolkata",
    "Israel Standard Time": "Asia/Jerusalem",
    "Korea Standard Time": "Asia/Seoul",
    "Mountain Standard Time": "America/Denver",
    "New Zealand Standard Time": "Pacific/Auckland",
    "Pacific Standard Time": "America/Los_Angeles",
    "Romance Standard Time": "Europe/Paris",
    "Russian Standard Time": "Europe/Moscow",
    "SE Asia Standard Time": "Asia/Bangkok",
    "Singapore Standard Time": "Asia/Singapore",
    "South Africa Standard Time": "Africa/Johannesburg",
    "Tokyo Standard Time": "Asia/Tokyo",
    "Turkey Standard Time": "Europe/Istanbul",
    "W. Europe Standard Time": "Europe/Berlin",
    "BST": "Europe/London",
    "CEST": "Europe/Berlin",
    "CST": "America/Chicago",
    "EDT": "America/New_York",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "PDT": "America/Los_Angeles",
    "PST": "America/Los_Angeles",
    "US/Pacific-New": "America/Los_Angeles",
}
"""Names of other systems, and what their users most likely mean: a hint, never a silent translation."""


class ZoneError(TimingError):
    """No zone of that name exists."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch [start, end) of instants with one UTC offset.

    The offset rose by `shift_us` at the start and rises by `next_shift_us` at the end. A long stretch is told in pieces
    that join by a shift of zero, never within two days of a change.
    """

    start_us: int
    end_us: int
    offset_us: int
    shift_us: int
    next_shift_us: int
    calm_from_us: int
    calm_until_us: int
    """In [calm_from, calm_until) the wall shows no time that it showed before, skipped lately, or shows again."""


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    """Load an IANA zone by its exact name. Raises ZoneError for every other text."""
    if name not in zone_names():
        raise ZoneError("zone.unknown", f"unknown time zone {_shown(name)}", _hint(name), length=len(name))
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@cache
def zone_names() -> frozenset[str]:
    """Give every name that `load_zone` takes."""
    listed = resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split()
    return frozenset(listed) - _PLACEHOLDER_ZONES


def tzdata_version() -> str:
    """Name the release of the time-zone data, such as 2026a."""
    return str(tzdata.IANA_VERSION)


def offset_at(zone: ZoneInfo, instant_us: int) -> int:
    """Give the UTC offset of an instant, in microseconds."""
    offset = from_us(instant_us).astimezone(zone).utcoffset()
    return (offset or timedelta()) // _MICROSECOND


def segment_at(zone: ZoneInfo, instant_us: int) -> Segment:
    """Give the segment that holds an instant."""
    latest = _LATEST.get(zone)
    if latest is not None and latest.start_us <= instant_us < latest.end_us:
        return latest
    segment, *later = _segments(zone, instant_us // _CHUNK_US)
    for each in later:
        if segment.end_us <= instant_us:
            segment = each
    _LATEST[zone] = segment
    return segment


def instants_of(zone: ZoneInfo, local_us: int) -> list[int]:
    """Give the instants at which the wall shows a local time: none in a gap, two in an overlap, else one."""
    found: list[int] = []
    instant = local_us - 2 * DAY_US
    while instant <= local_us + 2 * DAY_US:
        segment = segment_at(zone, instant)
        if segment.start_us <= local_us - segment.offset_us < segment.end_us:
            found.append(local_us - segment.offset_us)
        instant = segment.end_us
    return found


@lru_cache(maxsize=16_384)
def _segments(zone: ZoneInfo, index: int) -> tuple[Segment, ...]:
    """Give the segments that hold the instants of one chunk of time.

    The first goes back to a change in the chunk before, the last on to one in the chunk after; where there is none, to
    a seam near the far end of that chunk.
    """
    before, after = _changes(zone, index - 1), _changes(zone, index + 1)
    starts = [
        before[-1] if before else max(FIRST_US, (index - 1) * _CHUNK_US + _SEAM_US),
        *_changes(zone, index),
        after[0] if after else (index + 2) * _CHUNK_US - _SEAM_US,
    ]
    return tuple(_segment(zone, start, end) for start, end in pairwise(starts))


def _segment(zone: ZoneInfo, start: int, end: int) -> Segment:
    offset = offset_at(zone, start)
    shift = offset - offset_at(zone, max(FIRST_US, start - SECOND_US))
    next_shift = offset_at(zone, min(end, LAST_US)) - offset
    calm_from = start + abs(shift)
    calm_until = end - max(0, -next_shift)
    return Segment(start, end, offset, shift, next_shift, calm_from, calm_until)


@lru_cache(maxsize=16_384)
def _changes(zone: ZoneInfo, index: int) -> tuple[int, ...]:
    """Find the instants of one chunk of time at which the offset changes, by probing and bisecting."""
    start, end = max(FIRST_US, index * _CHUNK_US), min(LAST_US, (index + 1) * _CHUNK_US)
    changes: list[int] = []
    probe = start - SECOND_US
    offset = offset_at(zone, probe)
    while probe < end - SECOND_US:
        after = min(probe + _PROBE_US, end - SECOND_US)
        if (later := offset_at(zone, after)) != offset:
            changes.append(_change(zone, probe, after, offset))
            offset = later
        probe = after
    return tuple(changes)


def _change(zone: ZoneInfo, low: int, high: int, offset: int) -> int:
    """Find the first second after `low` whose offset is not `offset`."""
    while high - low > SECOND_US:
        middle = (low + high) // (2 * SECOND_US) * SECOND_US
        if offset_at(zone, middle) == offset:
            low = middle
        else:
            high = middle
    return high


def _hint(name: str) -> str:
    if bare := name.strip("\"' \t"):
        same = {known.casefold(): known for known in zone_names()}
        plain = bare.casefold().replace(" ", "_")
        if plain in same:
            return f"Write {same[plain]}"
        if meant := {other.casefold(): zone for other, zone in _ELSEWHERE.items()}.get(bare.casefold()):
            return f"Write an IANA name, such as {meant}"
        if inside := sorted(zone for key, zone in same.items() if key.startswith(f"{plain}/")):
            return f"That is a region: write one of its zones, such as {inside[0]}"
        if near := difflib.get_close_matches(plain[:_SHOWN], same, n=1, cutoff=0.7):
            return f"Did you mean {same[near[0]]}?"
    return "Write an IANA name, such as Europe/Berlin or UTC"


def _shown(name: str) -> str:
    quote = "'" if '"' in name else '"'
    return f"{quote}{name if len(name) <= _SHOWN else name[:_SHOWN] + '…'}{quote}"
