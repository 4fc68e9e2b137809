"""The kinds of definition: a job does work; queues, calendars and defaults say something about many jobs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from reconciler.model.definition import (
    AGING_PER_LEVEL_US,
    DEFAULT_TIME_ZONE,
    Job,
    Json,
    digest_of,
    job_from,
)
from reconciler.model.duration import parse_duration

Key = tuple[str, str]
"""Kind and name: what a definition is known by."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A line in which runs wait. `max_running` None means that any number may run at once."""

    kind: ClassVar[str] = "Queue"
    name: str
    max_running: int | None
    aging_us: int
    suspend: bool
    document: Mapping[str, Json]
    digest: str


@dataclass(frozen=True, slots=True)
class Defaults:
    """Fields that jobs and triggers take where they say nothing themselves; merged before a job comes to be."""

    kind: ClassVar[str] = "Defaults"
    name: str
    document: Mapping[str, Json]
    digest: str


@dataclass(frozen=True, slots=True)
class Calendar:
    """Times at which work may not run, or only may run. The events of iCalendar files stand in its document."""

    kind: ClassVar[str] = "Calendar"
    name: str
    document: Mapping[str, Json]
    digest: str

    @property
    def spec(self) -> Mapping[str, Json]:
        """Its mode, zone and windows."""
        spec: Mapping[str, Json] = self.document["spec"]
        return spec


Declared = Job | Queue | Defaults | Calendar


def declared_from(document: Mapping[str, Json], *, time_zone: str = DEFAULT_TIME_ZONE) -> Declared:
    """Build what a validated document declares, by its kind; `time_zone` is that of what names none."""
    return _BUILDERS[document["kind"]](document, time_zone)


def key_of(declared: Declared) -> Key:
    """Give what a definition is known by."""
    return declared.kind, declared.name


def label(key: Key) -> str:
    """Name a definition to people: a job by its name alone."""
    kind, name = key
    return name if kind == Job.kind else f"{kind.lower()} {name}"


def _job_from(document: Mapping[str, Json], time_zone: str) -> Job:
    return job_from(document, time_zone=time_zone)


def _queue_from(document: Mapping[str, Json], _: str) -> Queue:
    spec = document.get("spec", {})
    aging = spec.get("agingPerLevel")
    return Queue(
        name=document["metadata"]["name"],
        max_running=spec.get("max"),
        aging_us=AGING_PER_LEVEL_US if aging is None else parse_duration(aging),
        suspend=spec.get("suspend", False),
        document=document,
        digest=digest_of(document),
    )


def _defaults_from(document: Mapping[str, Json], _: str) -> Defaults:
    return Defaults(document["metadata"]["name"], document, digest_of(document))


def _calendar_from(declared: Mapping[str, Json], time_zone: str) -> Calendar:
    """Build a calendar; as in jobs, a zone of the settings is written into the document, not into the digest."""
    document = declared
    if time_zone != DEFAULT_TIME_ZONE:
        document = {**declared, "spec": {"timeZone": time_zone, **declared["spec"]}}
    return Calendar(declared["metadata"]["name"], document, digest_of(declared))


_BUILDERS: Final[Mapping[str, Callable[[Mapping[str, Json], str], Declared]]] = {
    Job.kind: _job_from,
    Queue.kind: _queue_from,
    Defaults.kind: _defaults_from,
    Calendar.kind: _calendar_from,
}
KINDS: Final = tuple(_BUILDERS)
