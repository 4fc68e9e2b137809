"""`flaky`: fail the first attempts on purpose, then succeed; for trying out alerts and retries.

Payload (schemas/handlers/flaky.schema.json): `failures`. Attempts are counted in a file of the data folder, per
definition and slot: a retry on the same node goes on counting, the next slot begins anew.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Mapping
from typing import Any

from reconciler.words import count
from reconciler.worker.handlers.files import DataFolder


class OnPurposeError(Exception):
    """The failure that was asked for."""


def run(payload: Mapping[str, Any], data: DataFolder, environment: Mapping[str, str]) -> str:
    """Count this attempt, and fail while there are failures left."""
    # A hash: what it is made of never becomes part of a path.
    names = f"{environment['RECONCILER_DEFINITION']}\n{environment['RECONCILER_SLOT']}"
    key = hashlib.sha256(names.encode()).hexdigest()[:32]
    attempt, failures = _count(data, f"flaky/{key}.count"), payload.get("failures", 1)
    if attempt <= failures:
        raise OnPurposeError(f"attempt {attempt}: failing on purpose, as this job does {count(failures, 'time')}")
    return f"attempt {attempt}: succeeded after {count(failures, 'failure')}"


def _count(data: DataFolder, name: str) -> int:
    path = data.path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"x")
        file.flush()
        return file.tell()
