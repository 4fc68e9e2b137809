"""The settings that hold for one command, and where each came from.

A flag wins over the environment, that over `reconciler.yaml`, and this over the default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from reconciler.cli.configfile import TIME_ZONE, keys, written_in, zone_words
from reconciler.cli.options import DEFAULT_SOURCE
from reconciler.clock import SECOND_US
from reconciler.config import Config, SettingsError, SourceSettings, config_from
from reconciler.errors import UsageError
from reconciler.model.duration import parse_duration
from reconciler.model.lease import Timings
from reconciler.spec.schemas import CONFIG_FILE, faults_by, schema
from reconciler.spec.source import Limits
from reconciler.spec.wording import words_of

DEFAULT_FILE: Final = Path("reconciler.yaml")
FILE_VARIABLE: Final = "RECONCILER_CONFIG"
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
_NOT_KEYS: Final = frozenset({FILE_VARIABLE, "RECONCILER_DEBUG"})
_PREFIX: Final = "RECONCILER_"
_FILE: Final = "File"
_SHORT: Final = {"store.url": "RECONCILER_STORE"}
"""The one variable whose name is shorter than its key: everybody types it."""
_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_META: Final = "reconciler.cli.settings"
_PATHS: Final = ("node.data", "store.urlFile", "metrics.tokenFile")


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody gave, durations in seconds, and where."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds, and where each value that is no default came from."""

    config: Config
    given: Mapping[str, Given]
    file: Path | None

    @property
    def timings(self) -> Timings:
        """The protocol's timings."""
        each = self.config.timings
        return Timings(
            each.lease_seconds, each.heartbeat_seconds, each.leader_ttl_seconds, rescan_seconds=each.rescan_seconds
        )

    @property
    def limits(self) -> Limits:
        """How much a source may hold."""
        each = self.config.limits
        return Limits(each.file_bytes, each.tree_bytes, each.tree_files, nodes=each.values_per_file)

    @property
    def time_zone(self) -> str:
        """The zone of triggers that name none."""
        return self.config.schedule.default_time_zone

    def sources(self, path: Path | None, name: str | None) -> tuple[SourceSettings, ...]:
        """Give the sources that a command line names: by path, by name, by both, or all that are configured.

        A path that is configured goes by its name there. Raises UsageError.
        """
        configured = self.config.sources
        if path is not None:
            known = next((each.name for each in configured if _absolute(each.path) == _absolute(path)), DEFAULT_SOURCE)
            return (SourceSettings(name or known, str(path)),)
        if name is None:
            return configured
        if "sources" not in self.given:
            return (replace(configured[0], name=name),)
        found = tuple(each for each in configured if each.name == name)
        if not found:
            raise UsageError(f"no source is called {name!r}; there are {', '.join(each.name for each in configured)}")
        return found

    def source(self, path: Path | None, name: str | None) -> SourceSettings:
        """Give the one source that a command line names. Raises UsageError where there are several."""
        first, *others = self.sources(path, name)
        if others:
            names = ", ".join(each.name for each in (first, *others))
            raise UsageError(f"there are several sources ({names}): name one with --source, or a PATH")
        return first

    def origin(self, key: str) -> str:
        """Say where a value came from."""
        return self.given[key].origin if key in self.given else "default"


def load(flags: Mapping[str, Any] | None = None) -> Settings:
    """Give the settings of the running command; `flags` are its options by key, absent ones None or empty.

    Raises UsageError (InvalidSettingsError for the file), naming where each value at fault came from.
    """
    file, below = _without_flags()
    wanted = {key: value for key, value in (flags or {}).items() if value not in (None, ())}
    given = {**below, **{key: Given(value, FLAGS[key]) for key, value in wanted.items()}}
    try:
        settings = Settings(config_from({key: each.value for key, each in given.items()}), given, file)
    except SettingsError as fault:
        raise UsageError(f"{fault} ({_origins(given, fault.keys)})") from fault
    try:
        _ = settings.timings
    except UsageError as fault:
        timings = [key for key in given if key.startswith("timings.")]
        raise UsageError(f"{fault}" + (f" ({_origins(given, timings)})" if timings else "")) from fault
    return settings


def choose_file(value: str | None) -> None:
    """Note which file the command was told to read."""
    click.get_current_context().meta[f"{_META}.file"] = value


def variable_of(key: str) -> str:
    """Name the environment variable of a key: `RECONCILER_TIMINGS_LEADER_TTL` for `timings.leaderTtl`."""
    if key.endswith(_FILE) and key.removesuffix(_FILE) in _SHORT:
        return f"{_SHORT[key.removesuffix(_FILE)]}_FILE"
    return _SHORT.get(key) or _PREFIX + "_".join(_WORD.sub("_", part) for part in key.split(".")).upper()


def unknown_variables() -> list[str]:
    """List variables that look like settings and are none."""
    known = {variable_of(key) for key in keys()} | _NOT_KEYS
    return sorted(name for name in os.environ if name.startswith(_PREFIX) and name not in known)


def _without_flags() -> tuple[Path | None, dict[str, Given]]:
    """Read file and environment, once per command."""
    context = click.get_current_context(silent=True)
    meta: dict[str, Any] = {} if context is None else context.meta
    if _META not in meta:
        file = _file(meta.get(f"{_META}.file"))
        from_file = {} if file is None else _from_file(file)
        meta[_META] = file, {**from_file, **_from_environment()}
    found: tuple[Path | None, dict[str, Given]] = meta[_META]
    return found


def _file(chosen: str | None) -> Path | None:
    named = chosen or os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _from_file(file: Path) -> dict[str, Given]:
    written = written_in(file)
    given = {
        key: Given(_plain(key, _anchored(key, each.value, file.parent)), str(each.place))
        for key, each in written.items()
    }
    return _with_secrets(given)


def _from_environment() -> dict[str, Given]:
    """Read the variables; all that is wrong with them is said at once."""
    given: dict[str, Given] = {}
    wrong: list[str] = []
    for key, item in keys().items():
        name = variable_of(key)
        text = os.environ.get(name)
        if text is None:
            continue
        if not text.strip():
            wrong.append(f"{name} is set and empty: give it a value, or unset it")
            continue
        value = _read(item, text)
        if key == "sources" and not all("path" in each for each in value):
            wrong.append(f"{name}: {text!r} names no directories: write NAME=PATH, several with commas between them")
            continue
        words = [
            words_of(fault) for fault in faults_by({**item, "definitions": schema(CONFIG_FILE)["definitions"]}, value)
        ]
        words += [zone] if key == TIME_ZONE and not words and (zone := zone_words(value)) else []
        wrong += [f"{name}: {each.what}. {each.mend}" for each in words]
        if not words:
            given[key] = Given(_plain(key, value), name)
    if wrong:
        raise UsageError("\n       ".join(wrong))
    return _with_secrets(given)


def _read(item: Mapping[str, Any], text: str) -> Any:
    """Read a variable as its key wants it: lists by commas, sources as `name=path`, whole numbers as such."""
    match item.get("type"):
        case "integer" if text.strip().lstrip("+-").isdigit():
            return int(text)
        case "array":
            parts = [part.strip() for part in text.split(",") if part.strip()]
            if item["items"].get("type") != "object":
                return parts
            return [dict(zip(("name", "path"), part.split("=", 1), strict=False)) for part in parts]
        case _:
            return text


def _plain(key: str, value: Any) -> Any:
    """Turn a duration into seconds; anything else stays."""
    is_duration = keys()[key].get("$ref", "").endswith("/duration")
    return parse_duration(value) / SECOND_US if is_duration else value


def _anchored(key: str, value: Any, folder: Path) -> Any:
    """Let relative paths of the file begin at its folder."""
    if key == "sources":
        return [{**each, "path": str(folder / each["path"])} for each in value]
    if key in _PATHS:
        return str(folder / value)
    if key == "store.url" and value.startswith("sqlite:///") and not value.startswith("sqlite:////"):
        return f"sqlite:///{folder / value.removeprefix('sqlite:///')}"
    return value


def _with_secrets(given: dict[str, Given]) -> dict[str, Given]:
    """Put what a file holds in the place of its name. Raises UsageError."""
    told: dict[str, Given] = {}
    for key, each in given.items():
        if not (key.endswith(_FILE) and key.removesuffix(_FILE) in keys()):
            told.setdefault(key, each)
            continue
        if key.removesuffix(_FILE) in given:
            raise UsageError(
                f"{each.origin} and {given[key.removesuffix(_FILE)].origin} exclude each other: keep one of them"
            )
        try:
            text = Path(each.value).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else "it is no UTF-8 text"
            raise UsageError(f"{each.origin}: {each.value} cannot be read: {why}") from fault
        if not text or len(text.splitlines()) > 1:
            raise UsageError(f"{each.origin}: {each.value} must hold one line")
        told[key.removesuffix(_FILE)] = Given(text, f"{each.origin} (file {each.value})")
    return told


def _absolute(path: str | Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - links stay as they are, as for the store's name of a source


def _origins(given: Mapping[str, Given], names: Any) -> str:
    return ", ".join(f"{name} from {given[name].origin}" for name in names if name in given) or "from the defaults"
