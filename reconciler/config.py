"""What an operator sets, complete and frozen, with the defaults: plain values, wherever they came from.

The field names are the keys of `reconciler.yaml` in snake case, with the unit where a number is bare: the field of
`timings.leaderTtl` is `leader_ttl_seconds`. The command line reads file, environment and flags, and hands over a
mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

_UNIT: Final = "_seconds"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where the store is; None means the file in `.reconciler/`."""

    url: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """A directory of definitions under a name."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A worker node. `name` None means the host's name, `queues` None all of them."""

    name: str | None = None
    queues: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()
    slots: int = 4
    data: str = ".reconciler/data"
    drain_timeout_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker lets definitions do."""

    allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimingSettings:
    """The protocol's timings; their relations are the law of `model.lease.Timings`."""

    lease_seconds: float = 30.0
    heartbeat_seconds: float = 5.0
    leader_ttl_seconds: float = 15.0
    rescan_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """How much may run and how much a source may hold."""

    max_running: int | None = None
    file_bytes: int = 256 * 1024
    tree_bytes: int = 64 * 1024 * 1024
    tree_files: int = 20_000
    values_per_file: int = 20_000


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """How many deletions pass without an approval."""

    max_deletion_percent: int = 20
    window_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """What triggers mean that do not say it themselves."""

    default_time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class MisfireSettings:
    """What becomes of slots that were noticed too late."""

    policy: str = "FireNow"
    window_seconds: float = 24 * 3600.0
    cap: int = 100


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Where Prometheus scrapes each kind of process, `HOST:PORT` or `off`, and what it must know."""

    serve: str = "127.0.0.1:5018"
    worker: str = "127.0.0.1:5019"
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Where `serve` answers over HTTP, `HOST:PORT` or `off`."""

    listen: str = "127.0.0.1:5017"


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting; `cli/relations.py` says which of them cannot work together."""

    store: StoreSettings = field(default_factory=StoreSettings)
    sources: tuple[SourceSettings, ...] = (SourceSettings("default", "jobs.d"),)
    node: NodeSettings = field(default_factory=NodeSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    timings: TimingSettings = field(default_factory=TimingSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    misfire: MisfireSettings = field(default_factory=MisfireSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    api: ApiSettings = field(default_factory=ApiSettings)


def config_from(values: Mapping[str, Any]) -> Config:
    """Build the settings from values by key (`timings.leaderTtl`), durations in seconds."""
    groups: dict[str, Any] = {}
    for key, group, name in _fields():
        if key in values:
            groups.setdefault(group, {})[name] = _frozen(values[key])
    sources = groups.pop("sources", {}).get("sources")
    made = {name: getattr(_DEFAULT, name).__class__(**given) for name, given in groups.items()}
    if sources is not None:
        made["sources"] = tuple(SourceSettings(**each) for each in sources)
    return Config(**made)


def values_of(config: Config) -> dict[str, Any]:
    """List every setting by key, in the order of the file; durations in seconds."""
    values: dict[str, Any] = {}
    for key, group, name in _fields():
        held = getattr(config, group)
        values[key] = [{"name": each.name, "path": each.path} for each in held] if key == group else getattr(held, name)
    return values


_DEFAULT: Final = Config()


def _fields() -> Iterator[tuple[str, str, str]]:
    """List each setting: its key, its group and its field; `sources` is one setting by itself."""
    for group in fields(Config):
        if group.name == "sources":
            yield group.name, group.name, group.name
            continue
        for each in fields(getattr(_DEFAULT, group.name)):
            yield f"{group.name}.{_camel(each.name.removesuffix(_UNIT))}", group.name, each.name


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
