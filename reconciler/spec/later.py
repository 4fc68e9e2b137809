"""What the format publishes but this version does not do yet: refused by name, never accepted and ignored.

Each later feature takes its names out of here when it begins to act.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KINDS: Final = frozenset({"Workflow", "Channel", "Tenant", "Policy"})
HANDLERS: Final = frozenset({"http"})

_SPEC: Final = frozenset(
    {
        "alerts",
        "allowCompletionTriggers",
        "budget",
        "circuitBreaker",
        "concurrency",
        "deadline",
        "excludes",
        "expect",
        "level",
        "outputs",
        "placement",
        "retention",
    }
)
_TRIGGER: Final = frozenset(
    {
        "on",
    }
)
_RETRIED: Final = frozenset({"status", "errors"})
_SPECS: Final = ("spec", "spec.job")
"""Where the fields of a job stand: in the job, and in defaults."""
FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "metadata": frozenset({"namespace", "annotations"}),
    "spec": _SPEC,
    "spec.triggers[]": _TRIGGER,
    "spec.job": _SPEC,
    "spec.trigger": _TRIGGER - {"on"},
    **{f"{spec}.retry.{which}": _RETRIED for spec in _SPECS for which in ("on", "neverOn")},
    "spec.handler.with.env[]": frozenset({"secret"}),
}
"""Field names by the place they belong to; `[]` stands for any item of a list."""
