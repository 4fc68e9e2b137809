"""Calendars: windows that mean something, files that are there, and triggers that the calendars leave a slot."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

from reconciler.model import kinds
from reconciler.model.definition import Json, timing_from
from reconciler.model.policy import CalendarAction
from reconciler.model.trigger import CalendarUse, Frame, frame_from
from reconciler.schedule import TimingError
from reconciler.schedule.calendar import Calendar, time_of_day
from reconciler.schedule.ical import Windows, windows_of
from reconciler.schedule.occurrences import parse_instant
from reconciler.schedule.resolve import LookupRefusedError, built, holidays_of
from reconciler.schedule.timeline import timeline
from reconciler.schedule.zones import load_zone
from reconciler.spec.build import Candidate
from reconciler.spec.check import add_timing_error
from reconciler.spec.nodes import Path, place_at, place_of_key
from reconciler.spec.source import Limits
from reconciler.spec.wording import Words, did_you_mean
from reconciler.words import count

_WINDOWS: Final = ("spec", "windows")
_ZONE: Final = ("spec", "timeZone")
_TRIGGERS: Final = ("spec", "triggers")
_RANGE: Final = frozenset({"from", "to"})
_LEAP_YEAR: Final = 2024

Files = Mapping[str, bytes]
"""The iCalendar files of the tree, by the names that places carry, normalised."""


def check_calendar(made: Candidate, files: Files, *, limits: Limits, time_zone: str) -> None:
    """Add what is wrong with a calendar beyond its shape, and write the events of its files into its document.

    `time_zone` is that of calendars which name none.
    """
    name = made.value(*_ZONE)
    zone = load_zone(time_zone)
    if isinstance(name, str):
        try:
            zone = load_zone(name)
        except TimingError as error:
            add_timing_error(made, _ZONE, error)
    expanded: dict[int, Json] = {}
    for index, window in made.items(*_WINDOWS):
        path = (*_WINDOWS, index)
        if not made.is_clean(*path) or not _has_one_form(made, path, window):
            continue
        _check_window(made, path, window)
        if "ical" in window and made.is_clean(*path):
            found = _events(made, path, files, partial(_windows, limits=limits, zone=zone))
            expanded |= {index: found} if found else {}
    if expanded:
        listed = made.value(*_WINDOWS)
        windows = [expanded.get(index, window) for index, window in enumerate(listed)]
        made.document = {**made.document, "spec": {**made.document["spec"], "windows": windows}}


def check_calendars(candidates: Sequence[Candidate], *, time_zone: str) -> None:
    """Refuse triggers that name an unknown calendar or are left without a slot; hold back those of broken ones."""
    declared = {made.name: made for made in candidates if made.kind == kinds.Calendar.kind and made.name is not None}
    sound = {name: built(made.value("spec")) for name, made in declared.items() if made.is_sound}
    for made in candidates:
        for index, trigger in made.items(*_TRIGGERS) if made.is_job else ():
            path = (*_TRIGGERS, index)
            for at, use in made.items(*path, "calendars"):
                _check_reference(made, (*path, "calendars", at, "name"), use.get("name"), declared)
            if made.is_clean(*path) and made.waits_for is None:
                zone = {} if "every" in trigger else {"timeZone": time_zone}
                _check_slots(made, path, {**zone, **trigger}, sound)


def _check_reference(made: Candidate, path: Path, name: Json, declared: Mapping[str, Candidate]) -> None:
    if not isinstance(name, str) or not made.is_clean(*path):
        return
    if name not in declared:
        mend = did_you_mean(name, declared, otherwise="Declare it, as an object of kind: Calendar")
        words = Words("calendar.unknown", f'there is no calendar called "{name}"', mend)
        made.add(words, path, place_at(made.file, made.root, path))
    elif not declared[name].is_sound:
        made.wait_for(declared[name])


def _check_slots(made: Candidate, path: Path, trigger: Mapping[str, Json], calendars: Mapping[str, Calendar]) -> None:
    """Refuse a trigger whose bounds or calendars leave it no slot; one counted from its activation cannot be judged."""
    bounds = [name for name in ("notBefore", "notAfter") if name in trigger]
    frame, timing = frame_from(trigger), timing_from(trigger)
    is_relative = "every" in trigger and "anchor" not in trigger
    if not (bounds or trigger.get("calendars")) or (is_relative and not _is_reversed(frame)):
        return
    line = timeline(timing, frame, activated_us=0, name=(made.name or "", ""), calendars=calendars)
    if line.next_after(0) is None:
        words = Words(
            "timing.bounds",
            "the trigger has no slot inside its bounds",
            "Write bounds that hold one of its slots, or take them out",
        )
        path = (*path, bounds[-1])
        made.add(words, path, place_at(made.file, made.root, path))
    elif line.next_run_after(0) is None:
        named = " and ".join(f'"{each.name}"' for each in frame.calendars)
        what = f"the trigger never runs: its slots all fall into times at which {named} is closed"
        waits = replace(
            frame, calendars=tuple(CalendarUse(each.name, CalendarAction.DEFER) for each in frame.calendars)
        )
        opens = timeline(timing, waits, activated_us=0, calendars=calendars).next_run_after(0) is not None
        mend = "Write another timing or calendar" + (", or action: Defer" if opens else "")
        words = Words("calendar.never", what, mend)
        path = (*path, "calendars")
        made.add(words, path, place_of_key(made.file, made.root, path))


def _is_reversed(frame: Frame) -> bool:
    """Whether the bounds leave no instant at all."""
    first, last = frame.not_before, frame.not_after
    return first is not None and last is not None and parse_instant(first) > parse_instant(last)


def _has_one_form(made: Candidate, path: Path, window: Mapping[str, Json]) -> bool:
    """Whether a window is of exactly one form; says so when it is not."""
    first, *others = window
    for name in others:
        if {first, name} != _RANGE:
            words = Words("calendar.window", f"{first} and {name} exclude each other", "Write two windows")
            made.add(words, (*path, name), place_of_key(made.file, made.root, (*path, name)))
            return False
    if first in _RANGE and not others:
        (other,) = _RANGE - {first}
        words = Words(
            "calendar.window", f'"{other}" is missing beside "{first}"', f"Add {other}, the same day for one day"
        )
        made.add(words, (*path, other), place_of_key(made.file, made.root, path))
        return False
    return True


def _check_window(made: Candidate, path: Path, window: Mapping[str, Json]) -> None:
    match window:
        case {"from": first, "to": last}:
            _check_range(made, path, first, last)
        case {"dates": dates}:
            for at, text in enumerate(dates):
                _read(made, (*path, "dates", at), text, date.fromisoformat)
        case {"yearly": {"from": first, "to": last}}:
            for name, text in (("from", first), ("to", last)):
                _read(made, (*path, "yearly", name), text, lambda each: date.fromisoformat(f"{_LEAP_YEAR}-{each}"))
        case {"daily": {"from": first, "to": last}} if time_of_day(first) == time_of_day(last):
            mend = "Write weekdays for whole days, or times that differ"
            _refuse(made, (*path, "daily", "to"), Words("calendar.window", "it begins and ends at the same time", mend))
        case {"holidays": asked}:
            _check_holidays(made, (*path, "holidays"), asked)
        case _:
            pass  # all that the others may hold is in the schema


def _check_range(made: Candidate, path: Path, first: str, last: str) -> None:
    """Read both ends, which are two dates or two instants, in order."""
    has_time = "T" in first
    if has_time is not ("T" in last):
        what = "one end is a date and the other an instant"
        _refuse(made, (*path, "to"), Words("calendar.window", what, "Write two dates, or two instants"))
        return
    read: Callable[[str], object] = parse_instant if has_time else date.fromisoformat
    _read(made, (*path, "from"), first, read)
    _read(made, (*path, "to"), last, read)
    if made.is_clean(*path):
        length = parse_instant(last) - parse_instant(first) if has_time else _days(first, last)
        if length <= 0:
            _refuse(made, (*path, "to"), Words("calendar.window", "it ends before it begins", "Write a later end"))


def _days(first: str, last: str) -> int:
    return (date.fromisoformat(last) - date.fromisoformat(first)).days + 1


def _check_holidays(made: Candidate, path: Path, asked: Mapping[str, Json]) -> None:
    try:
        holidays_of(**asked)
    except LookupRefusedError as error:
        path = (*path, error.part) if error.part else path
        mend = did_you_mean(str(asked.get(error.part)), error.known, otherwise=error.mend)
        _refuse(made, path, Words(error.rule, error.what, mend))


def _events(made: Candidate, path: Path, files: Files, read: Callable[[bytes], Json]) -> Json:
    """Give an iCalendar window with what its file came to; None where there is no such file, or a bad one."""
    path, named = (*path, "ical"), made.value(*path, "ical")
    folder = posixpath.dirname(made.file)
    file = posixpath.normpath(posixpath.join(folder, named))
    if file not in files:
        known = [posixpath.relpath(each, folder or ".") for each in files]
        mend = did_you_mean(named, known, otherwise="Commit it to this tree, or correct the path")
        _refuse(made, path, Words("calendar.no-file", f'there is no file "{named}" in this tree', mend))
        return None
    try:
        return {"ical": named, "windows": read(files[file])}
    except LookupRefusedError as error:
        _refuse(made, path, Words(error.rule, f"{named}: {error.what}", error.mend))
        return None


def _windows(content: bytes, *, limits: Limits, zone: ZoneInfo) -> Windows:
    if len(content) > limits.file_bytes:
        what = f"it has more than {count(limits.file_bytes, 'byte')}"
        raise LookupRefusedError("calendar.ical", what, "Take out events that are over", part="ical")
    return windows_of(content, zone)


def _read(made: Candidate, path: Path, text: str, read: Callable[[str], object]) -> None:
    try:
        read(text)
    except TimingError as error:
        add_timing_error(made, path, error)
    except ValueError:
        _refuse(
            made, path, Words("calendar.date", f'"{text}" is no date', "Write a date that exists, such as 2026-12-31")
        )


def _refuse(made: Candidate, path: Path, words: Words) -> None:
    made.add(words, path, place_at(made.file, made.root, path))
