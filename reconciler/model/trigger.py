"""What a trigger says beside its timing: what narrows or moves its slots, and what becomes of them when they are late.

A changed timing document starts a new activation; changed rules do not (protocol.md, Who applies).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler.model.duration import parse_duration
from reconciler.model.policy import DEFAULT_MISFIRE, CalendarAction, Misfire, MisfirePolicy

TIMING_FIELDS: Final = (
    "cron",
    "every",
    "anchor",
    "at",
    "timeZone",
    "dst",
    "dayRule",
    "jitter",
    "calendars",
    "notBefore",
    "notAfter",
)
RULE_FIELDS: Final = ("misfire", "startingDeadline")


@dataclass(frozen=True, slots=True)
class CalendarUse:
    """A calendar that a trigger minds, and how."""

    name: str
    action: CalendarAction


@dataclass(frozen=True, slots=True)
class Frame:
    """What narrows or moves the slots of a timing; the instants are texts with an offset."""

    jitter_us: int = 0
    not_before: str | None = None
    not_after: str | None = None
    calendars: tuple[CalendarUse, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What becomes of slots that were noticed late, and of runs that nobody starts in time."""

    misfire: Misfire = DEFAULT_MISFIRE
    starting_deadline_us: int | None = None


def frame_from(document: Mapping[str, Any]) -> Frame:
    """Read the frame from the timing fields of a trigger."""
    return Frame(
        jitter_us=parse_duration(document["jitter"]) if "jitter" in document else 0,
        not_before=document.get("notBefore"),
        not_after=document.get("notAfter"),
        calendars=tuple(
            CalendarUse(each["name"], CalendarAction(each.get("action", CalendarAction.SKIP)))
            for each in document.get("calendars", ())
        ),
    )


def rules_from(document: Mapping[str, Any], default: Misfire = DEFAULT_MISFIRE) -> Rules:
    """Read the rules of a trigger; what it does not say of misfires is `default`."""
    said = document.get("misfire", {})
    changes: dict[str, Any] = {}
    if "policy" in said:
        changes["policy"] = MisfirePolicy(said["policy"])
    if "window" in said:
        changes["window_us"] = parse_duration(said["window"])
    if "cap" in said:
        changes["cap"] = said["cap"]
    deadline = document.get("startingDeadline")
    return Rules(dataclasses.replace(default, **changes), None if deadline is None else parse_duration(deadline))
