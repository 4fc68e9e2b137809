"""Warnings of the coming year: times that the clocks skip or show twice, where the author has not said what then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reconciler.errors import Problem, Severity
from reconciler.model.definition import timing_from
from reconciler.schedule.clockchanges import clock_changes
from reconciler.schedule.occurrences import compile_timing
from reconciler.schedule.zones import DAY_US
from reconciler.spec.build import Candidate
from reconciler.spec.nodes import dotted, place_at

_TRIGGERS: Final = ("spec", "triggers")
_YEAR_US: Final = 365 * DAY_US


def clock_warnings(made: Candidate, now_us: int, *, time_zone: str) -> Iterator[Problem]:
    """Warn of each trigger of a sound job that meets changes of the clocks within a year, once for each kind."""
    for index, trigger in made.items(*_TRIGGERS):
        if "cron" not in trigger:
            continue
        path, said = (*_TRIGGERS, index, "cron"), trigger.get("dst", {})
        timing = timing_from({"timeZone": time_zone, **trigger})
        occurrences = compile_timing(timing, activated_us=now_us, seed=made.name or "")
        seen: set[str] = set()
        for change in clock_changes(occurrences, now_us, now_us + _YEAR_US):
            if change.field in said or change.field in seen:
                continue
            seen.add(change.field)
            mend = f"If that is meant, write dst: {{{change.field}: {change.rule}}}; else another rule or time"
            place = place_at(made.file, made.root, path)
            yield Problem("timing.clock-change", place, dotted(made.root, path), str(change), mend, Severity.WARNING)
