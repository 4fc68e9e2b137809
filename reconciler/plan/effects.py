"""What a change does to fire times, seen from the instant at which a plan would be applied.

An interval without an anchor counts from its activation, which a plan does not know of what is stored: its fire times
are not compared, and that is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.clock import from_us, iso
from reconciler.model.definition import DEFAULT_TIME_ZONE, AtTiming, CronTiming, EveryTiming, Job, Json, Trigger
from reconciler.model.trigger import frame_from
from reconciler.schedule.cron import parse
from reconciler.schedule.cronwords import words
from reconciler.schedule.timeline import Timeline, timeline
from reconciler.schedule.zones import load_zone

_MOST: Final = 100_000
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Fires:
    """Fire times of a job that a change brings or takes away up to the horizon, and how many stay."""

    gained: Sequence[int]
    lost: Sequence[int]
    kept: int
    uncounted: Sequence[str]
    """Triggers that are left out: they count from an activation that is not known, or fire too often to list."""


def trigger_lines(job: Job, before: Job | None, now_us: int) -> Iterator[str]:
    """Say when each new or changed trigger fires next, and did before, and which triggers are gone."""
    suspended = "; suspended: nothing fires" if job.suspend else ""
    known = {trigger.name: trigger for trigger in (before.triggers if before else ())}
    for trigger in _changed(job, before):
        held = "; suspended: it does not fire" if trigger.suspend and not suspended else suspended
        yield f"      trigger {trigger.name}: {_timing_words(job, trigger)}; {_next_words(job, trigger, now_us)}{held}"
        if before is not None and trigger.name in known:
            yield f"        before: {_next_words(before, known[trigger.name], now_us)}"
    kept = {trigger.name for trigger in job.triggers}
    for name in known:
        if name not in kept:
            yield f"      trigger {name}: taken out"


def trigger_facts(job: Job, before: Job | None, now_us: int) -> list[Json]:
    """Give the same as plain values."""
    known = {trigger.name: trigger for trigger in (before.triggers if before else ())}
    return [
        {
            "name": trigger.name,
            **trigger.timing_document,
            "nextFireTime": _next_fact(job, trigger, now_us),
            "nextFireTimeBefore": _next_fact(before, known.get(trigger.name), now_us),
        }
        for trigger in _changed(job, before)
    ]


def fires(after: Job | None, before: Job | None, now_us: int, horizon_us: int) -> Fires:
    """Compare the fire times of a job before and after; None where there is no job."""
    uncounted: set[str] = set()
    came = _within(before, now_us, horizon_us, other=after, uncounted=uncounted)
    comes = _within(after, now_us, horizon_us, other=before, uncounted=uncounted)
    return Fires(
        sorted((comes - came).elements()), sorted((came - comes).elements()), (came & comes).total(), sorted(uncounted)
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
    if found.uncounted:
        yield f"      fire times of {', '.join(found.uncounted)} are not compared: they count from the activation"


def fires_facts(found: Fires, until_us: int) -> Json:
    """Give the same as plain values, with the first few instants."""
    return {
        "until": iso(until_us),
        "gained": {"count": len(found.gained), "first": [iso(each) for each in found.gained[:_SHOWN]]},
        "lost": {"count": len(found.lost), "first": [iso(each) for each in found.lost[:_SHOWN]]},
        "kept": found.kept,
        "notCompared": list(found.uncounted),
    }


def _within(job: Job | None, now_us: int, horizon_us: int, *, other: Job | None, uncounted: set[str]) -> Counter[int]:
    """Count the fire times of a job up to the horizon, without triggers that cannot be compared with the other job."""
    slots = Counter[int]()
    if job is None or job.suspend:
        return slots
    known = {trigger.name: trigger.timing_document for trigger in (other.triggers if other else ())}
    for trigger in job.triggers:
        if trigger.suspend:
            continue
        if (
            _counts_from_activation(trigger)
            and known.get(trigger.name) != trigger.timing_document
            and other is not None
        ):
            uncounted.add(trigger.name)
            continue
        found = _line(job, trigger, now_us).between(now_us, now_us + horizon_us, limit=_MOST)
        if len(found) == _MOST:
            uncounted.add(trigger.name)
            continue
        slots.update(each.slot_us for each in found if each.reason is None)
    return slots


def _counts_from_activation(trigger: Trigger) -> bool:
    return isinstance(trigger.timing, EveryTiming) and trigger.timing.anchor is None


def _changed(job: Job, before: Job | None) -> list[Trigger]:
    known = {
        trigger.name: (trigger.timing_document, trigger.suspend) for trigger in (before.triggers if before else ())
    }
    return [
        trigger for trigger in job.triggers if known.get(trigger.name) != (trigger.timing_document, trigger.suspend)
    ]


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


def _next_words(job: Job, trigger: Trigger, now_us: int) -> str:
    slot = _next_slot(job, trigger, now_us)
    if slot is None:
        return "does not fire any more"
    zone = trigger.timing_document.get("timeZone", DEFAULT_TIME_ZONE)
    local = "" if zone == DEFAULT_TIME_ZONE else f" ({from_us(slot).astimezone(load_zone(zone)).isoformat()} {zone})"
    return f"next {iso(slot)}{local}"


def _next_fact(job: Job | None, trigger: Trigger | None, now_us: int) -> str | None:
    if job is None or trigger is None or job.suspend or trigger.suspend:
        return None
    slot = _next_slot(job, trigger, now_us)
    return None if slot is None else iso(slot)


def _next_slot(job: Job, trigger: Trigger, now_us: int) -> int | None:
    """Give the next slot that runs; an apply at `now` activates the trigger at that instant."""
    planned = _line(job, trigger, now_us).next_run_after(now_us)
    return None if planned is None else planned.slot_us


def _line(job: Job, trigger: Trigger, now_us: int) -> Timeline:
    return timeline(
        trigger.timing, frame_from(trigger.timing_document), activated_us=now_us, name=(job.name, trigger.name)
    )
