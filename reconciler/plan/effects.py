"""What a change does to fire times, seen from the instant at which a plan would be applied.

An interval without an anchor counts from its activation, which a plan does not know of what is stored: its fire times
are not compared, and that is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reconciler.clock import from_us, iso
from reconciler.model.definition import DEFAULT_TIME_ZONE, AtTiming, CronTiming, EveryTiming, Job, Json, Trigger
from reconciler.model.policy import CalendarAction
from reconciler.model.trigger import frame_from
from reconciler.plan.closures import Calendars
from reconciler.schedule.clockchanges import ClockChange
from reconciler.schedule.cron import parse
from reconciler.schedule.cronwords import words
from reconciler.schedule.timeline import Planned, Timeline, timeline
from reconciler.schedule.zones import DAY_US, load_zone

_MOST: Final = 100_000
_SHOWN: Final = 5
_YEAR_US: Final = 365 * DAY_US


@dataclass(frozen=True, slots=True)
class Side:
    """A job on one side of a comparison, None where there is none, and the calendars of that side."""

    job: Job | None
    calendars: Calendars = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fires:
    """Fire times of a job that a change brings or takes away up to the horizon, and how many stay."""

    gained: Sequence[int]
    lost: Sequence[int]
    kept: int
    uncounted: Mapping[str, str]
    """Triggers that cannot be compared, and why."""


def trigger_lines(after: Side, before: Side, now_us: int) -> Iterator[str]:
    """Say when each new or changed trigger fires next, and did before, and which triggers are gone."""
    known = _by_name(before)
    suspended = "; suspended: nothing fires" if after.job and after.job.suspend else ""
    for job, trigger in _changed(after, before):
        held = "; suspended: it does not fire" if trigger.suspend and not suspended else suspended
        minded = _calendar_words(trigger)
        yield (
            f"      trigger {trigger.name}: {_timing_words(job, trigger)}{minded}; "
            f"{_next_words(after, trigger, now_us)}{held}"
        )
        if trigger.name in known:
            yield f"        before: {_next_words(before, known[trigger.name], now_us)}"
        yield from (f"        clocks: {each}" for each in _clock_changes(after, trigger, now_us))
    for name in sorted(known.keys() - _by_name(after).keys()):
        yield f"      trigger {name}: taken out"


def trigger_facts(after: Side, before: Side, now_us: int) -> list[Json]:
    """Give the same as plain values."""
    known = _by_name(before)
    return [
        {
            "name": trigger.name,
            **trigger.timing_document,
            "nextFireTime": _next_fact(after, trigger, now_us),
            "nextFireTimeBefore": _next_fact(before, known.get(trigger.name), now_us),
            "clockChanges": [str(each) for each in _clock_changes(after, trigger, now_us)],
        }
        for _, trigger in _changed(after, before)
    ]


def fires(after: Side, before: Side, now_us: int, horizon_us: int) -> Fires:
    """Compare the fire times of a job before and after."""
    uncounted: dict[str, str] = {}
    came = _within(before, now_us, horizon_us, other=after, uncounted=uncounted)
    comes = _within(after, now_us, horizon_us, other=before, uncounted=uncounted)
    return Fires(
        sorted((comes - came).elements()), sorted((came - comes).elements()), (came & comes).total(), uncounted
    )


def fires_lines(found: Fires, until_us: int) -> Iterator[str]:
    """Say what is gained and lost; nothing where nothing is."""
    parts = [
        f"{len(slots):,} {word} (first {iso(slots[0])})"
        for word, slots in (("gained", found.gained), ("lost", found.lost))
        if slots
    ]
    if parts:
        kept = f", {found.kept:,} stay" if found.kept else ""
        yield f"      fire times until {iso(until_us)}: {', '.join(parts)}{kept}"
    for name, why in sorted(found.uncounted.items()):
        yield f"      fire times of {name} are not compared: {why}"


def fires_facts(found: Fires, until_us: int) -> Json:
    """Give the same as plain values, with the first few instants."""
    return {
        "until": iso(until_us),
        "gained": {"count": len(found.gained), "first": [iso(each) for each in found.gained[:_SHOWN]]},
        "lost": {"count": len(found.lost), "first": [iso(each) for each in found.lost[:_SHOWN]]},
        "kept": found.kept,
        "notCompared": sorted(found.uncounted),
    }


def _within(side: Side, now_us: int, horizon_us: int, *, other: Side, uncounted: dict[str, str]) -> Counter[int]:
    """Count the fire times of a job up to the horizon, without triggers that cannot be compared with the other side."""
    slots = Counter[int]()
    if side.job is None or side.job.suspend:
        return slots
    known = _by_name(other)
    for trigger in side.job.triggers:
        if trigger.suspend:
            continue
        same = known.get(trigger.name)
        is_changed = other.job is not None and (same is None or same.timing_document != trigger.timing_document)
        if is_changed and _counts_from_activation(trigger):
            uncounted[trigger.name] = "they count from the activation"
            continue
        line = _line(side, side.job, trigger, now_us)
        found = [] if line is None else line.between(now_us, now_us + horizon_us, limit=_MOST)
        if line is None or len(found) == _MOST:
            uncounted[trigger.name] = "its calendar is not known here" if line is None else "they are too many"
            continue
        slots.update(each.slot_us for each in found if each.reason is None)
    return slots


def _counts_from_activation(trigger: Trigger) -> bool:
    return isinstance(trigger.timing, EveryTiming) and trigger.timing.anchor is None


def _by_name(side: Side) -> dict[str, Trigger]:
    return {trigger.name: trigger for trigger in (side.job.triggers if side.job else ())}


def _changed(after: Side, before: Side) -> list[tuple[Job, Trigger]]:
    known = {name: (each.timing_document, each.suspend) for name, each in _by_name(before).items()}
    return [
        (after.job, trigger)
        for trigger in (after.job.triggers if after.job else ())
        if after.job and known.get(trigger.name) != (trigger.timing_document, trigger.suspend)
    ]


def _calendar_words(trigger: Trigger) -> str:
    uses = frame_from(trigger.timing_document).calendars
    return "".join(f", {str(each.action).lower()} while calendar {each.name} is closed" for each in uses)


def _timing_words(job: Job, trigger: Trigger) -> str:
    match trigger.timing:
        case CronTiming(expression=expression, time_zone=time_zone, day_rule=day_rule):
            told = words(parse(expression, day_rule=day_rule, seed=job.name))
            return f'cron "{expression}" in {time_zone} ({told[0].lower()}{told[1:]})'
        case EveryTiming(_, anchor):
            since = f"from {anchor}" if anchor else "from its activation"
            return f"every {trigger.timing_document['every']} {since}"
        case AtTiming(at, time_zone):
            return f"at {at} in {time_zone}" if "timeZone" in trigger.timing_document else f"at {at}"


def _next_words(side: Side, trigger: Trigger, now_us: int) -> str:
    found = _next_run(side, trigger, now_us)
    if isinstance(found, str):
        return found
    zone = trigger.timing_document.get("timeZone", DEFAULT_TIME_ZONE)
    at = from_us(found.slot_us).astimezone(load_zone(zone)).isoformat()
    local = "" if zone == DEFAULT_TIME_ZONE else f" ({at} {zone})"
    waits = f", deferred to {iso(found.due_us)}" if _is_deferred(trigger) and found.due_us != found.slot_us else ""
    return f"next {iso(found.slot_us)}{local}{waits}"


def _is_deferred(trigger: Trigger) -> bool:
    return any(each.action is CalendarAction.DEFER for each in frame_from(trigger.timing_document).calendars)


def _next_fact(side: Side, trigger: Trigger | None, now_us: int) -> str | None:
    if side.job is None or trigger is None or side.job.suspend or trigger.suspend:
        return None
    found = _next_run(side, trigger, now_us)
    return None if isinstance(found, str) else iso(found.slot_us)


def _next_run(side: Side, trigger: Trigger, now_us: int) -> Planned | str:
    """Give the next slot that runs, or why there is none; an apply at `now` activates the trigger at that instant."""
    line = _line(side, side.job, trigger, now_us)
    if line is None:
        return "its calendar is not known here"
    return line.next_run_after(now_us) or "does not fire any more"


def _clock_changes(side: Side, trigger: Trigger, now_us: int) -> list[ClockChange]:
    """List where the trigger meets a change of the clocks within a year."""
    line = _line(side, side.job, trigger, now_us)
    return [] if line is None else list(line.clock_changes(now_us, now_us + _YEAR_US))


def _line(side: Side, job: Job | None, trigger: Trigger, now_us: int) -> Timeline | None:
    """Lay out a trigger's slots; None if a calendar is not known on this side."""
    frame = frame_from(trigger.timing_document)
    if any(each.name not in side.calendars for each in frame.calendars):
        return None
    name = (job.name if job else "", trigger.name)
    return timeline(trigger.timing, frame, activated_us=now_us, name=name, calendars=side.calendars)
