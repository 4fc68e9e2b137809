import struct
from datetime import UTC, datetime
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from reconciler.clock import from_us, iso, to_us
from reconciler.schedule.zones import (
    LAST_US,
    ZoneError,
    instants_of,
    load_zone,
    offset_at,
    segment_at,
    tzdata_version,
    zone_names,
)

DAY = 86_400


@pytest.mark.case("DST-15")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("America/New York", "Write America/New_York"),
        ('"Europe/Berlin"', "Write Europe/Berlin"),
        ("europe/berlin", "Write Europe/Berlin"),
        ("Local", "such as"),
        ("PST", "America/Los_Angeles"),
        ("US/Pacific-New", "America/Los_Angeles"),
        ("W. Europe Standard Time", "Europe/Berlin"),
        ("Europe", "such as Europe/"),
        ("Europe/Berln", "Did you mean Europe/Berlin?"),
        ("../etc/x", "such as"),
        ("/usr/share/zoneinfo/UTC", "such as"),
        ("Europe/Berlin\x00", "such as"),
        ("", "such as"),
        ("Factory", "such as"),
        ("x" * 65_536, "such as"),
    ],
)
def test_a_name_that_is_no_zone_is_refused_by_name_and_never_becomes_utc(name: str, hint: str) -> None:
    with pytest.raises(ZoneError) as caught:
        load_zone(name)

    assert caught.value.rule == "zone.unknown"
    assert name[:80] in caught.value.what
    assert hint in caught.value.mend or "Did you mean" in caught.value.mend


@pytest.mark.case("DST-15")
@pytest.mark.parametrize("name", ["US/Eastern", "Europe/Kiev", "Asia/Calcutta", "Etc/GMT+5", "UTC", "America/Montreal"])
def test_aliases_are_taken_and_kept_as_written(name: str) -> None:
    assert load_zone(name).key == name


@pytest.mark.case("DST-15")
def test_the_machine_s_own_zone_files_are_never_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    real_open = Path.open

    def watched(self: Path, *args: object, **kwargs: object) -> object:
        opened.append(str(self))
        return real_open(self, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", watched)
    load_zone.__wrapped__("Africa/Abidjan")

    assert len(opened) == 1
    assert "tzdata" in opened[0]
    assert tzdata_version() >= "2025b"


def test_every_listed_name_loads() -> None:
    assert all(load_zone(name).key == name for name in zone_names())


def test_offsets_hold_longer_than_two_probes_in_every_zone() -> None:
    """What `zones._chunk` relies on, read from the raw files."""
    shortest = min(later - earlier for name in zone_names() for earlier, later in _stretches(name))

    assert shortest > 6 * DAY


def _stretches(name: str) -> list[tuple[int, int]]:
    """Give the stretches of constant offset of the 64-bit block of a TZif file, from 1900 on."""
    raw = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    first = struct.unpack(">6l", raw[20:44])
    at = 44 + first[3] * 5 + first[4] * 6 + first[5] + first[2] * 8 + first[1] + first[0]
    count, types = struct.unpack(">6l", raw[at + 20 : at + 44])[3:5]
    at += 44
    times = struct.unpack(f">{count}q", raw[at : at + 8 * count])
    kinds = raw[at + 8 * count : at + 9 * count]
    at += 9 * count
    offsets = [struct.unpack(">l", raw[at + 6 * kind : at + 6 * kind + 4])[0] for kind in range(types)]
    changes: list[int] = []
    offset = None
    for time, kind in zip(times, kinds, strict=True):
        if offsets[kind] != offset:
            changes.append(time)
            offset = offsets[kind]
    return [pair for pair in pairwise(changes) if pair[1] > to_us(datetime(1900, 1, 1, tzinfo=UTC)) // 10**6]


@pytest.mark.parametrize("name", ["Europe/Berlin", "Pacific/Apia", "Africa/Casablanca", "Asia/Gaza"])
def test_segments_leave_no_holes_and_tell_the_offset_of_every_hour(name: str) -> None:
    zone = load_zone(name)
    at, end = to_us(datetime(2009, 1, 1, tzinfo=UTC)), to_us(datetime(2014, 1, 1, tzinfo=UTC))

    segment = segment_at(zone, at)
    while at < end:
        if at >= segment.end_us:
            following = segment_at(zone, segment.end_us)
            assert following.start_us <= segment.end_us
            assert segment.next_shift_us == following.offset_us - segment.offset_us
            if segment.next_shift_us:
                assert (following.start_us, following.shift_us) == (segment.end_us, segment.next_shift_us)
            segment = following
        assert segment.offset_us == offset_at(zone, at)
        at += 3600 * 10**6


def test_the_first_instant_after_a_change_is_exact() -> None:
    winter = segment_at(load_zone("Europe/Berlin"), to_us(datetime(2026, 3, 1, tzinfo=UTC)))

    assert iso(winter.end_us) == "2026-03-29T01:00:00Z"


@pytest.mark.parametrize(
    ("zone", "local", "instants"),
    [
        ("Europe/Berlin", "2026-03-29T02:30:00", []),
        ("Europe/Berlin", "2026-10-25T02:30:00", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
        ("Europe/Berlin", "2026-07-01T12:00:00", ["2026-07-01T10:00:00Z"]),
        ("Pacific/Apia", "2011-12-30T12:00:00", []),
        ("Australia/Lord_Howe", "2026-04-05T01:45:00", ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"]),
    ],
)
def test_a_local_time_has_no_one_or_two_instants(zone: str, local: str, instants: list[str]) -> None:
    local_us = to_us(datetime.fromisoformat(local).replace(tzinfo=UTC))

    assert [iso(instant) for instant in instants_of(load_zone(zone), local_us)] == instants


def test_far_years_have_offsets_too() -> None:
    zone: ZoneInfo = load_zone("Europe/Berlin")

    assert segment_at(zone, LAST_US - 1).offset_us == 3600 * 10**6
    assert from_us(segment_at(zone, LAST_US - 1).start_us).year >= 9997
