"""The keys of `reconciler.yaml`, and the variable and the flag of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from reconciler.spec.schemas import CONFIG_FILE, schema

TIME_ZONE: Final = "schedule.defaultTimeZone"
FLAGS: Final = {
    "store.url": "--store",
    "node.name": "--node-id",
    "node.queues": "--queues",
    "node.tags": "--tags",
    "node.slots": "--slots",
    "node.data": "--data",
    "node.drainTimeout": "--drain-timeout",
    "worker.allow": "--allow",
    "timings.lease": "--lease",
    "timings.heartbeat": "--heartbeat",
    "timings.leaderTtl": "--leader-ttl",
    "timings.rescan": "--rescan",
    "metrics.serve": "--metrics",
    "metrics.worker": "--metrics",
    "api.listen": "--listen",
}
"""The options of commands by the settings they win over."""
VARIABLE_PREFIX: Final = "RECONCILER_"
_FILE: Final = "File"
_SHORT: Final = {"store.url": "RECONCILER_STORE"}
"""The one variable whose name is shorter than its key: everybody types it."""
_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def keys() -> Mapping[str, Mapping[str, Any]]:
    """List every key of the file with its schema, in order."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, item in schema(CONFIG_FILE)["properties"].items():
        if "properties" in item:
            found |= {f"{name}.{inner}": each for inner, each in item["properties"].items()}
        else:
            found[name] = item
    return found


def definition_of(key: str) -> Mapping[str, Any]:
    """Give the schema of a key's value, by itself."""
    return {**keys()[key], "definitions": schema(CONFIG_FILE)["definitions"]}


def is_duration(key: str) -> bool:
    """Whether the value of a key is a duration."""
    return bool(keys()[key].get("$ref", "").endswith("/duration"))


def is_secret(key: str) -> bool:
    """Whether the value of a key is a secret."""
    return bool(keys()[key].get("writeOnly"))


def held_in_file(key: str) -> str | None:
    """Give the key of what is in the file that a key names: `store.url` for `store.urlFile`; None for other keys."""
    held = key.removesuffix(_FILE)
    return held if held != key and held in keys() else None


def twin_of(key: str) -> str | None:
    """Give the key that says the same in the other way: by the name of a file, or as it is."""
    return held_in_file(key) or (f"{key}{_FILE}" if f"{key}{_FILE}" in keys() else None)


def variable_of(key: str) -> str:
    """Name the environment variable of a key: `RECONCILER_TIMINGS_LEADER_TTL` for `timings.leaderTtl`."""
    held = held_in_file(key)
    if held in _SHORT:
        return f"{_SHORT[held]}_FILE"
    return _SHORT.get(key) or VARIABLE_PREFIX + "_".join(_WORD.sub("_", part) for part in key.split(".")).upper()
