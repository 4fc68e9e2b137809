"""What `doctor` looks at without a store: the interpreter, its libraries, the settings, the sources, the programs."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from reconciler.cli.settings import Settings, unknown_variables
from reconciler.clock import from_us
from reconciler.config import SourceSettings
from reconciler.schedule.zones import tzdata_version
from reconciler.spec.load import SourceUnavailableError, load_tree
from reconciler.spec.source import HAS_LIBYAML
from reconciler.words import count

_OLDEST_SQLITE: Final = (3, 35)
"""The first one with RETURNING."""
_YEAR_DIGITS: Final = 4
_FREE_BYTES: Final = 200 * 1024 * 1024


class Verdict(StrEnum):
    """How a check ended: `fail` means that something does not work, `warn` that somebody should look."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, and how to mend it."""

    check: str
    verdict: Verdict
    what: str
    mend: str = ""


def ok(check: str, what: str) -> Finding:
    """Say that something is as it should be."""
    return Finding(check, Verdict.OK, what)


def warn(check: str, what: str, mend: str) -> Finding:
    """Say that somebody should look."""
    return Finding(check, Verdict.WARN, what, mend)


def fail(check: str, what: str, mend: str) -> Finding:
    """Say that something does not work."""
    return Finding(check, Verdict.FAIL, what, mend)


def libraries(now_us: int) -> Iterator[Finding]:
    """Look at the interpreter and what is installed into it."""
    yield ok("python", ".".join(map(str, sys.version_info[:3])))  # an older one is refused at the installation
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        yield fail("sqlite", sqlite3.sqlite_version, "it lacks RETURNING: use a Python with SQLite 3.35 or newer")
    else:
        yield ok("sqlite", sqlite3.sqlite_version)
    if HAS_LIBYAML:
        yield ok("yaml", "PyYAML with libyaml")
    else:
        yield warn("yaml", "PyYAML without libyaml reads files eight times slower", "install its wheel")
    version = tzdata_version()
    released = int(version[:_YEAR_DIGITS]) if version[:_YEAR_DIGITS].isdigit() else 0
    if released + 1 < from_us(now_us).year:
        yield warn("time zones", f"{version} is more than a year old", "pip install --upgrade tzdata, on every node")
    else:
        yield ok("time zones", f"{version}; every node should have the same")


def configuration(settings: Settings, *, with_sources: bool) -> Iterator[Finding]:
    """Look at what the settings say of this machine; one that only runs workers needs no sources."""
    yield ok("settings", f"from {settings.file}" if settings.file else "no reconciler.yaml: defaults and variables")
    if strangers := unknown_variables():
        mend = "mend the name (`reconciler config show --origin` lists them), or unset it"
        yield warn("variables", f"{', '.join(strangers)} names no setting", mend)
    for program in settings.config.worker.allow:
        if program != "*" and shutil.which(program) is None:
            yield warn("programs", f"{program} is allowed and not on this machine", "install it, or mend worker.allow")
    for source in settings.config.sources if with_sources else ():
        yield _source(settings, source)


def _source(settings: Settings, source: SourceSettings) -> Finding:
    check = f"source {source.name}"
    try:
        tree = load_tree(source.path, limits=settings.limits, time_zone=settings.time_zone)
    except SourceUnavailableError as fault:
        return fail(check, f"{fault}: nothing is applied and nothing pruned", fault.MEND)
    if tree.errors:
        return warn(check, f"{source.path}: {count(len(tree.errors), 'error')}", f"reconciler validate {source.path}")
    return ok(check, f"{source.path}: {count(len(tree.definitions), 'valid definition')}")


def disk(file: Path, kind: str | None) -> Finding:
    """Look at where an SQLite store lies; a network file system is refused when it is opened."""
    folder = file.parent if file.parent.is_dir() else Path()
    free = shutil.disk_usage(folder).free
    what = f"{file} on {kind or 'an unknown file system'}, {free // 1024**2:,} MiB free"
    return warn("disk", what, "make room: a full disk stops the store") if free < _FREE_BYTES else ok("disk", what)
