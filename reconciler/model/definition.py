"""What a file declares, as typed values; and the digest by which two declarations are the same.

A definition is built from a *document*: the plain mapping (str, int, bool, list, dict, None) that a file holds after
strict loading, or that the store gives back. Documents are validated before they come here (`reconciler.spec`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from reconciler.clock import SECOND_US
from reconciler.model.duration import parse_duration
from reconciler.model.policy import Backoff, DayRule, Gap, OnDelete, Overlap, Retry
from reconciler.model.trigger import RULE_FIELDS, TIMING_FIELDS

Json = Any
"""A JSON value: str, int, float, bool, None, list or dict of the same."""

DEFAULT_TRIGGER: Final = "default"
DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY: Final = 5
DEFAULT_TIMEOUT: Final = "1h"
DEFAULT_GRACE: Final = "10s"
DEFAULT_TIME_ZONE: Final = "UTC"
DEFAULT_MAX_LOST_LEASES: Final = 3
DEFAULT_RETRY: Final = Retry()
AGING_PER_LEVEL_US: Final = 60 * SECOND_US
"""A waiting run gains one priority level per this time (format.md, Queue.agingPerLevel)."""


@dataclass(frozen=True, slots=True)
class CronTiming:
    """Fires at the civil times a cron expression names in a zone."""

    expression: str
    time_zone: str
    gap: Gap = Gap.RUN_AFTER
    overlap: Overlap = Overlap.FIRST
    day_rule: DayRule = DayRule.OR


@dataclass(frozen=True, slots=True)
class EveryTiming:
    """Fires each `interval_us` of elapsed time, counted from `anchor` (ISO instant) or from the activation."""

    interval_us: int
    anchor: str | None


@dataclass(frozen=True, slots=True)
class AtTiming:
    """Fires once, at an instant with an offset or a local time of `time_zone`."""

    at: str
    time_zone: str


Timing = CronTiming | EveryTiming | AtTiming


@dataclass(frozen=True, slots=True)
class Trigger:
    """One reason why a definition runs. A changed `timing_document` starts a new activation; nothing else does."""

    name: str
    timing_document: Mapping[str, Json]
    parameters: Mapping[str, Json]
    rules_document: Mapping[str, Json] = field(default_factory=dict)
    suspend: bool = False

    @property
    def timing(self) -> Timing:
        """When it fires."""
        return timing_from(self.timing_document)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A typed input of a job; `default` counts only where `has_default`."""

    name: str
    schema: Mapping[str, Json]
    has_default: bool
    default: Json


@dataclass(frozen=True, slots=True)
class Handler:
    """What does the work: a type the worker admits, and its payload (placeholders not yet filled)."""

    type: str
    payload: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as declared, defaults filled in.

    `document` is what was written and what the operator's settings add to it; `digest` is over what was written. The
    built-in defaults stand in neither.
    """

    kind: ClassVar[str] = "Job"
    name: str
    labels: Mapping[str, str]
    description: str
    owner: str
    suspend: bool
    handler: Handler
    parameters: Sequence[Parameter]
    triggers: Sequence[Trigger]
    queue: str
    priority: int
    timeout_us: int
    grace_us: int
    on_delete: OnDelete
    retry: Retry
    max_lost_leases: int
    starting_deadline_us: int | None
    """How long after it is due a run may start that no trigger made, or that waited for its retry."""
    document: Mapping[str, Json]
    digest: str


def canonical(document: Json) -> str:
    """Print a document in the one form that is hashed and stored: sorted keys, no spaces, plain Unicode."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(document: Json) -> str:
    """Give the SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()


def job_from(declared: Mapping[str, Json], *, time_zone: str = DEFAULT_TIME_ZONE) -> Job:
    """Build a Job from a validated document (apiVersion, kind, metadata, spec).

    `time_zone` is what triggers mean that name none. It stands in the job's document from here on, so that every node
    reads the same; the digest is over what was declared.
    """
    document = _with_time_zone(declared, time_zone)
    metadata, spec = document["metadata"], document["spec"]
    return Job(
        name=metadata["name"],
        labels=metadata.get("labels", {}),
        description=spec.get("description", ""),
        owner=spec.get("owner", ""),
        suspend=spec.get("suspend", False),
        handler=Handler(spec["handler"]["type"], spec["handler"].get("with", {})),
        parameters=tuple(
            Parameter(item["name"], item.get("schema", {}), "default" in item, item.get("default"))
            for item in spec.get("parameters", ())
        ),
        triggers=tuple(_trigger(item, spec) for item in spec.get("triggers", ())),
        starting_deadline_us=_optional_duration(spec.get("startingDeadline")),
        queue=spec.get("queue", DEFAULT_QUEUE),
        priority=spec.get("priority", DEFAULT_PRIORITY),
        timeout_us=parse_duration(spec.get("timeout", DEFAULT_TIMEOUT)),
        grace_us=parse_duration(spec.get("gracePeriod", DEFAULT_GRACE)),
        on_delete=OnDelete(spec.get("onDelete", OnDelete.DRAIN)),
        retry=_retry(spec.get("retry", {})),
        max_lost_leases=spec.get("poison", {}).get("maxLostLeases", DEFAULT_MAX_LOST_LEASES),
        document=document,
        digest=digest_of(declared),
    )


def _with_time_zone(document: Mapping[str, Json], time_zone: str) -> Mapping[str, Json]:
    """Write the zone into triggers at civil times that name none; the built-in default is never written."""
    triggers = document["spec"].get("triggers", ())
    if time_zone == DEFAULT_TIME_ZONE or all("every" in item or "timeZone" in item for item in triggers):
        return document
    zoned = [item if "every" in item else {"timeZone": time_zone, **item} for item in triggers]
    return {**document, "spec": {**document["spec"], "triggers": zoned}}


def _optional_duration(text: str | None) -> int | None:
    return None if text is None else parse_duration(text)


def _retry(item: Mapping[str, Json]) -> Retry:
    on_codes = item.get("on", {}).get("exitCodes")
    return Retry(
        max_attempts=item.get("maxAttempts", DEFAULT_RETRY.max_attempts),
        backoff=Backoff(item.get("backoff", DEFAULT_RETRY.backoff)),
        initial_us=parse_duration(item["initial"]) if "initial" in item else DEFAULT_RETRY.initial_us,
        max_us=parse_duration(item["max"]) if "max" in item else DEFAULT_RETRY.max_us,
        factor=item.get("factor", DEFAULT_RETRY.factor),
        on_codes=None if on_codes is None else frozenset(on_codes),
        never_on_codes=frozenset(item.get("neverOn", {}).get("exitCodes", ())),
    )


def timing_from(document: Mapping[str, Json]) -> Timing:
    """Build a Timing from the timing fields of a trigger."""
    time_zone = document.get("timeZone", DEFAULT_TIME_ZONE)
    if "cron" in document:
        dst = document.get("dst", {})
        return CronTiming(
            document["cron"],
            time_zone,
            gap=Gap(dst.get("gap", Gap.RUN_AFTER)),
            overlap=Overlap(dst.get("overlap", Overlap.FIRST)),
            day_rule=DayRule(document.get("dayRule", DayRule.OR)),
        )
    if "every" in document:
        return EveryTiming(parse_duration(document["every"]), document.get("anchor"))
    return AtTiming(document["at"], time_zone)


def _trigger(item: Mapping[str, Json], spec: Mapping[str, Json]) -> Trigger:
    rules = {key: item[key] for key in RULE_FIELDS if key in item}
    if "startingDeadline" in spec:
        rules = {"startingDeadline": spec["startingDeadline"], **rules}
    return Trigger(
        name=item.get("name", DEFAULT_TRIGGER),
        timing_document={key: item[key] for key in TIMING_FIELDS if key in item},
        parameters=item.get("parameters", {}),
        rules_document=rules,
        suspend=item.get("suspend", False),
    )
