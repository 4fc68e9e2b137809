"""The settings that hold for one command, and where each came from.

A flag wins over the environment, that over `reconciler.yaml`, and this over the default.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from reconciler.cli.configfile import SettingsFile, read_file, zone_words
from reconciler.cli.keys import (
    FLAGS,
    TIME_ZONE,
    VARIABLE_PREFIX,
    definition_of,
    held_in_file,
    is_duration,
    keys,
    twin_of,
    variable_of,
)
from reconciler.cli.options import DEFAULT_SOURCE
from reconciler.cli.relations import ADDRESSES, Misfit, misfits
from reconciler.cli.secrets import without_passwords, words_of_setting
from reconciler.clock import SECOND_US
from reconciler.config import Config, SourceSettings, config_from
from reconciler.errors import InvalidSettingsError, Problem, UsageError
from reconciler.model.duration import parse_duration
from reconciler.model.lease import Timings
from reconciler.plan.guard import DeletionRule
from reconciler.spec.schemas import faults_by
from reconciler.spec.source import Limits
from reconciler.spec.wording import Words

DEFAULT_FILE: Final = Path("reconciler.yaml")
FILE_VARIABLE: Final = "RECONCILER_CONFIG"
_NOT_KEYS: Final = frozenset({FILE_VARIABLE, "RECONCILER_DEBUG"})
_META: Final = "reconciler.cli.settings"
_PATHS: Final = ("node.data", "store.urlFile", "metrics.tokenFile")
_FURTHER: Final = "\n       "


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody gave, durations in seconds, and where."""

    value: Any
    origin: str
    is_in_file: bool = False


@dataclass(frozen=True, slots=True)
class _Layers:
    """What the command line does not say: the settings by key, and all that is wrong with them."""

    file: SettingsFile | None
    given: Mapping[str, Given]
    misfits: Sequence[Misfit]
    doubtful: frozenset[str]


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

    @property
    def deletions(self) -> DeletionRule:
        """How many definitions may go at once."""
        guard = self.config.guard
        return DeletionRule(guard.max_deletion_percent, guard.window_seconds)

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


def load(flags: Mapping[str, Any] | None = None, *, listens: Collection[str] = ()) -> Settings:
    """Give the settings of the running command; `flags` are its options by key, absent ones None or empty.

    `listens` are the addresses of `metrics` that it opens: others need no token here. Raises UsageError
    (InvalidSettingsError where the file is wrong) with all that is wrong, and where each value at fault came from.
    """
    layers = _layers()
    wanted = {key: value for key, value in (flags or {}).items() if value not in (None, ())}
    settings = _settings(layers, {key: Given(value, FLAGS[key]) for key, value in wanted.items()})
    _refuse(layers, settings, _misfits(layers, settings, listens))
    return settings


def configured_store() -> str | None:
    """Give the store that environment or file name. Raises UsageError as `load` does.

    What an option of the running command may still mend is left to its own `load`, unless more is wrong.
    """
    layers = _layers()
    settings = _settings(layers, {})
    unfit = _misfits(layers, settings, ())
    context = click.get_current_context()
    options = {name for each in context.command.params for name in each.opts}
    if _is_wrong(layers) or any(not options & {FLAGS.get(key) for key in each.keys} for each in unfit):
        _refuse(layers, settings, unfit)
    return settings.config.store.url


def _settings(layers: _Layers, flags: Mapping[str, Given]) -> Settings:
    given = _over(layers.given, flags)
    config = config_from({key: each.value for key, each in given.items() if held_in_file(key) is None})
    return Settings(config, given, None if layers.file is None else layers.file.path)


def _misfits(layers: _Layers, settings: Settings, listens: Collection[str]) -> list[Misfit]:
    """List what does not fit, as far as the values are known; all of it where the command is refused anyway."""
    listens = ADDRESSES if _is_wrong(layers) else listens
    doubtful = layers.doubtful - (settings.given.keys() - layers.given.keys())
    return [each for each in misfits(settings.config, listens) if doubtful.isdisjoint(each.keys)]


def _is_wrong(layers: _Layers) -> bool:
    return bool(layers.misfits or (layers.file is not None and layers.file.problems))


def _refuse(layers: _Layers, settings: Settings, unfit: Sequence[Misfit]) -> None:
    """Say all that is wrong at once: what stands in the file with its line, then the rest. Raises UsageError."""
    in_file: list[Problem] = []
    elsewhere: list[str] = []
    for misfit in (*layers.misfits, *unfit):
        from_file = [key for key in misfit.keys if key in settings.given and settings.given[key].is_in_file]
        origins = ", ".join(f"{key} from {settings.given[key].origin}" for key in misfit.keys if key in settings.given)
        what = without_passwords(misfit.what)
        if layers.file is not None and from_file:
            first = replace(misfit, keys=tuple(from_file))
            in_file.append(layers.file.problem(first, f"{what} ({origins})" if len(misfit.keys) > 1 else what))
        else:
            elsewhere.append(f"{what}. {misfit.mend}" + (f" ({origins})" if origins else ""))
    if layers.file is not None and (layers.file.problems or in_file):
        report = layers.file.report(in_file)
        raise InvalidSettingsError("\n\n".join([report, *(f"error: {each}" for each in elsewhere)]))
    if elsewhere:
        raise UsageError(_FURTHER.join(elsewhere))


def choose_file(value: str | None) -> None:
    """Note which file the command was told to read."""
    click.get_current_context().meta[f"{_META}.file"] = value


def unknown_variables() -> list[str]:
    """List variables that look like settings and are none."""
    known = {variable_of(key) for key in keys()} | _NOT_KEYS
    return sorted(name for name in os.environ if name.startswith(VARIABLE_PREFIX) and name not in known)


def _layers() -> _Layers:
    """Read file and environment, once per command. Raises UsageError when the file cannot be read."""
    context = click.get_current_context(silent=True)
    meta: dict[str, Any] = {} if context is None else context.meta
    if _META not in meta:
        path = _file(meta.get(f"{_META}.file"))
        file = None if path is None else read_file(path)
        below = {} if file is None else _from_file(file)
        over, wrong = _from_environment()
        given, unread = _with_secrets(_over(below, over))
        doubtful = frozenset() if file is None else file.doubtful - over.keys()
        broken = [key for each in (*wrong, *unread) for key in each.keys]
        meta[_META] = _Layers(
            file,
            given,
            (*wrong, *unread),
            doubtful | {*broken, *(held for key in broken if (held := held_in_file(key)))},
        )
    found: _Layers = meta[_META]
    return found


def _over(below: Mapping[str, Given], given: Mapping[str, Given]) -> dict[str, Given]:
    """Lay settings over others; a secret wins over the name of its file, and the other way round."""
    hidden = {twin for key in given if (twin := twin_of(key)) and twin not in given}
    return {**{key: each for key, each in below.items() if key not in hidden}, **given}


def _file(chosen: str | None) -> Path | None:
    named = chosen or os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _from_file(file: SettingsFile) -> dict[str, Given]:
    return {
        key: Given(_plain(key, _anchored(key, each.value, file.path.parent)), str(each.place), is_in_file=True)
        for key, each in file.written.items()
    }


def _from_environment() -> tuple[dict[str, Given], list[Misfit]]:
    """Read the variables, and all that is wrong with them."""
    given: dict[str, Given] = {}
    wrong: list[Misfit] = []
    for key in keys():
        name = variable_of(key)
        text = os.environ.get(name)
        if text is None:
            continue
        value = _read(keys()[key], text)
        if found := list(_wrong_words(key, text, value)):
            wrong += [Misfit((key,), f"{name}: {words.what}", words.mend) for words in found]
        else:
            given[key] = Given(_plain(key, value), name)
    for key in [key for key in given if held_in_file(key) in given]:
        both = f"{variable_of(key)} and {variable_of(str(held_in_file(key)))}"
        wrong.append(Misfit((key,), f"{both} exclude each other", "Keep one of them"))
        del given[key]
    return given, wrong


def _wrong_words(key: str, text: str, value: Any) -> Iterator[Words]:
    """Say what is wrong with a variable."""
    if not text.strip():
        yield Words("config.empty", "it is set and empty", "Give it a value, or unset it")
    elif key == "sources" and not all("path" in each for each in value):
        what = f"{text!r} names no directories"
        yield Words("config.sources", what, "Write NAME=PATH, several with commas between them")
    elif found := list(faults_by(definition_of(key), value)):
        yield from (words_of_setting(key, fault) for fault in found)
    elif key == TIME_ZONE and (zone := zone_words(value)):
        yield zone


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
    return parse_duration(value) / SECOND_US if is_duration(key) else value


def _anchored(key: str, value: Any, folder: Path) -> Any:
    """Let relative paths of the file begin at its folder."""
    if key == "sources":
        return [{**each, "path": str(folder / each["path"])} for each in value]
    if key in _PATHS:
        return str(folder / value)
    if key == "store.url" and value.startswith("sqlite:///") and not value.startswith("sqlite:////"):
        return f"sqlite:///{folder / value.removeprefix('sqlite:///')}"
    return value


def _with_secrets(given: Mapping[str, Given]) -> tuple[dict[str, Given], list[Misfit]]:
    """Add what files hold to their names; say which cannot be used."""
    told, wrong = dict(given), []
    for key, each in given.items():
        held = held_in_file(key)
        if held is None:
            continue
        text, words = _secret_in(each.value, held)
        if words is None:
            told[held] = Given(text, f"{each.origin} (file {without_passwords(each.value)})", each.is_in_file)
        else:
            what = words.what if each.is_in_file else f"{each.origin}: {words.what}"
            wrong.append(Misfit((key,), what, words.mend, rule=words.rule))
    return told, wrong


def _secret_in(file: str, key: str) -> tuple[str, Words | None]:
    """Read a secret from a file; say why it cannot be used."""
    rule, mend = "config.secret-file", "Name a file that this process can read"
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is no UTF-8 text"
        return "", Words(rule, f"{file} cannot be read: {why}", mend)
    if not text or len(text.splitlines()) > 1:
        return "", Words(rule, f"{file} does not hold one line", "Write the secret into it, and nothing else")
    found = next(faults_by(definition_of(key), text), None)
    if found is None:
        return text, None
    words = words_of_setting(key, found)
    return "", Words(rule, f"{file}: {words.what}", words.mend)


def _absolute(path: str | Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - links stay as they are, as for the store's name of a source
