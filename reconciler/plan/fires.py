"""When the triggers of a definition fire next, seen from the instant at which a plan would be applied."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.clock import from_us, iso
from reconciler.model.definition import AtTiming, CronTiming, EveryTiming, Job, Json, Trigger
from reconciler.schedule.occurrences import compile_timing
from reconciler.schedule.zones import load_zone


def trigger_lines(job: Job, before: Job | None, now_us: int) -> Iterator[str]:
    """Say when each new or changed trigger fires next, and which triggers are gone."""
    suspended = "; suspended: nothing fires" if job.suspend else ""
    for trigger in _changed(job, before):
        yield f"      trigger {trigger.name}: {_timing_words(trigger)}; {_next_words(trigger, now_us)}{suspended}"
    kept = {trigger.name for trigger in job.triggers}
    for trigger in before.triggers if before else ():
        if trigger.name not in kept:
            yield f"      trigger {trigger.name}: taken out"


def trigger_facts(job: Job, before: Job | None, now_us: int) -> list[Json]:
    """Give the same as plain values."""
    facts: list[Json] = []
    for trigger in _changed(job, before):
        slot = _next_slot(trigger, now_us)
        next_fire = None if slot is None or job.suspend else iso(slot)
        facts.append({"name": trigger.name, **trigger.timing_document, "nextFireTime": next_fire})
    return facts


def _changed(job: Job, before: Job | None) -> list[Trigger]:
    known = {trigger.name: trigger.timing_document for trigger in (before.triggers if before else ())}
    return [trigger for trigger in job.triggers if known.get(trigger.name) != trigger.timing_document]


def _timing_words(trigger: Trigger) -> str:
    match trigger.timing:
        case CronTiming(expression, time_zone):
            return f'cron "{expression}" in {time_zone}'
        case EveryTiming(_, anchor):
            since = f"from {anchor}" if anchor else "from its activation"
            return f"every {trigger.timing_document['every']} {since}"
        case AtTiming(at, time_zone):
            return f"at {at} in {time_zone}" if "timeZone" in trigger.timing_document else f"at {at}"


def _next_words(trigger: Trigger, now_us: int) -> str:
    slot = _next_slot(trigger, now_us)
    if slot is None:
        return "does not fire any more"
    zone = _zone_of(trigger)
    local = "" if zone == "UTC" else f" ({from_us(slot).astimezone(load_zone(zone)).isoformat()} {zone})"
    return f"next {iso(slot)}{local}"


def _next_slot(trigger: Trigger, now_us: int) -> int | None:
    """An apply at `now` activates the trigger at that instant."""
    return compile_timing(trigger.timing, activated_us=now_us).next_after(now_us)


def _zone_of(trigger: Trigger) -> str:
    match trigger.timing:
        case CronTiming(_, time_zone) | AtTiming(_, time_zone):
            return time_zone
        case EveryTiming():
            return "UTC"
