"""Which revision of a source is on disk: a hash of the contents, and git's name for it where there is one."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.model.tree import Tree
from reconciler.spec.files import SourceUnavailableError, scan
from reconciler.spec.load import DEFAULT_LIMITS
from reconciler.spec.source import Limits

_GIT_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a pass would read, as hashes: an unchanged directory costs no parsing."""

    files: str
    faults: str
    """What could not be read, so that a change of that is noticed too."""


UNREADABLE: Final = Fingerprint("", "unreadable")


def fingerprint(path: Path, limits: Limits = DEFAULT_LIMITS) -> Fingerprint:
    """Hash what is on disk now; a directory that is missing or unreadable has a fingerprint of its own."""
    try:
        found = scan(path, limits)
    except SourceUnavailableError:
        return UNREADABLE
    files = _hash(f"{each.path}\0{each.sha256}" for each in found.contents)
    return Fingerprint(files, _hash(f"{problem.rule}\0{problem.place}" for problem in found.problems))


def tree_digest(tree: Tree) -> str:
    """Hash the contents a tree was read from, as `Fingerprint.files` does."""
    return _hash(f"{each.path}\0{each.sha256}" for each in tree.files)


def name_of(path: Path, digest: str) -> str:
    """Name the revision: git's commit (with `-dirty` when files differ from it), else the contents' hash."""
    commit = _git(path, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return f"sha256:{digest[:12]}"
    changed = _git(path, "status", "--porcelain", "--", ".")
    return f"{commit}-dirty" if changed else commit


def _git(path: Path, *arguments: str) -> str:
    """Ask git about a folder; empty where there is no repository, no git, or no answer in time.

    It takes no lock of its own: a checkout that runs at this moment must not fail because we looked.
    """
    try:
        asked = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(path), *arguments],  # noqa: S607 - the operator's PATH says where
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip()


def _hash(facts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
