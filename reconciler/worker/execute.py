"""From a claim and its definition to what the guard is asked to start.

Laws (security.md, rules 3, 4 and 6): text from a definition becomes list items and values, never a line for a shell; a
program starts only where this worker admits it; the environment of a job holds what is written here and in its own
definition, so neither the store's URL nor any secret of the worker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, Final

from reconciler.clock import SECOND_US, iso
from reconciler.model.definition import AtTiming, CronTiming, Job, Json, Trigger
from reconciler.model.placeholders import Context, PlaceholderError, fill
from reconciler.model.run import Claim
from reconciler.schedule.zones import load_zone
from reconciler.spec.schemas import Fault
from reconciler.spec.schemas import faults as schema_faults
from reconciler.spec.wording import words_of
from reconciler.worker.allow import Allow, CannotRunError
from reconciler.worker.handlers import COMMAND, child_argv
from reconciler.worker.wire import CLAIM_MARKER, Spawn

RESERVED: Final = ("RECONCILER_", "LD_", "PATH=", "HOME=", "BASH_ENV=", "ENV=", "PYTHON")
"""Beginnings of `NAME=` that a definition cannot set: they decide which code an admitted program loads."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where jobs run on this worker: the programs it admits, its data folder, and this job's private folder."""

    programs: Allow
    data: Path
    folder: Path


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job ready to be spawned; `stdin` is what it gets to read, if anything."""

    spawn: Spawn
    stdin: bytes | None


def prepare(claim: Claim, job: Job, trigger: Trigger | None, place: Place, *, epoch: int) -> Prepared:
    """Turn a claim into a command. Raises CannotRunError when this worker cannot or must not run it."""
    payload = _filled(claim, job, trigger)
    env = _environment(claim, job, place)
    if claim.handler == COMMAND:
        argv = payload["argv"]
        program, stdin = place.programs.resolve(argv[0]), None
        env |= _own_environment(payload.get("env", ()))
    else:
        argv = child_argv(claim.handler)
        program, stdin = argv[0], json.dumps(payload).encode()
    spawn = Spawn(
        job=name_of(claim),
        epoch=epoch,
        program=program,
        argv=argv,
        env=env,
        cwd=str(place.folder),
        timeout_seconds=job.timeout_us / SECOND_US,
        grace_seconds=job.grace_us / SECOND_US,
    )
    return Prepared(spawn, stdin)


def name_of(claim: Claim) -> str:
    """Name a job as guard, marker and log know it."""
    return f"{claim.run_id}.{claim.fence}"


def trigger_named(job: Job, name: str | None) -> Trigger | None:
    """Find the trigger of the very version that the run is bound to."""
    return next((trigger for trigger in job.triggers if trigger.name == name), None)


def _filled(claim: Claim, job: Job, trigger: Trigger | None) -> dict[str, Any]:
    context = Context(
        slot_us=claim.slot_us,
        zone=_zone(trigger),
        run_id=claim.run_id,
        attempt=claim.attempt,
        fence=claim.fence,
        definition=job.name,
        parameters=_parameters(claim, job, trigger),
    )
    try:
        filled: dict[str, Any] = fill(job.handler.payload, context, as_text=claim.handler == COMMAND)
    except PlaceholderError as fault:
        raise CannotRunError(f"the payload cannot be filled: {fault}") from fault
    if faults := sorted(_said(fault) for fault in schema_faults(f"handlers/{claim.handler}", filled)):
        raise CannotRunError(f"the payload does not fit once it is filled: {'; '.join(faults)}")
    return filled


def _said(fault: Fault) -> str:
    """Say what is wrong; a run has no place in a file, so the path stands for it."""
    where = ".".join(["with", *map(str, fault.path)])
    if fault.keyword == "required":
        return f"{where}: a field of {', '.join(fault.limit)} is missing"
    return f"{where}: {words_of(fault).what}"


def _parameters(claim: Claim, job: Job, trigger: Trigger | None) -> dict[str, Json]:
    """Default < trigger < the run's own (format.md)."""
    merged = {parameter.name: parameter.default for parameter in job.parameters if parameter.has_default}
    if trigger is not None:
        merged |= trigger.parameters
    if claim.parameters is not None:
        merged |= json.loads(claim.parameters)
    return merged


def _zone(trigger: Trigger | None) -> tzinfo:
    if trigger is not None and isinstance(trigger.timing, CronTiming | AtTiming):
        return load_zone(trigger.timing.time_zone)
    return UTC


def _environment(claim: Claim, job: Job, place: Place) -> dict[str, str]:
    return {
        "PATH": place.programs.search_path,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(place.folder),
        "TMPDIR": str(place.folder),
        "RECONCILER_RUN_ID": str(claim.run_id),
        CLAIM_MARKER: name_of(claim),
        "RECONCILER_FENCE": str(claim.fence),
        "RECONCILER_ATTEMPT": str(claim.attempt),
        "RECONCILER_SLOT": iso(claim.slot_us),
        "RECONCILER_DEFINITION": job.name,
        "RECONCILER_DATA": str(place.data),
    }


def _own_environment(entries: list[Mapping[str, Json]]) -> dict[str, str]:
    """Read the payload's `env: [{name, value}]`."""
    env = {}
    for entry in entries:
        name = str(entry["name"])
        if not name or "=" in name or f"{name}=".startswith(RESERVED):
            raise CannotRunError(f"env {name!r} cannot be set by a definition")
        env[name] = str(entry["value"])
    return env
