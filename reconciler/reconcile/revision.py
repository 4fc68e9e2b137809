"""Which revision of a source is on disk: a hash of the contents, and git's name for it where there is one."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Final

from reconciler.model.tree import Tree
from reconciler.spec.files import scan
from reconciler.spec.source import Limits

_GIT_SECONDS: Final = 5


def fingerprint(path: Path) -> str:
    """Hash what a pass would read, so that an unchanged directory costs no parsing. Raises SourceUnavailableError."""
    found = scan(path, Limits())
    facts = [f"{each.path}\0{each.sha256}" for each in found.contents]
    facts += [f"{problem.rule}\0{problem.place}" for problem in found.problems]
    return _hash(facts)


def tree_digest(tree: Tree) -> str:
    """Hash the contents a tree was read from."""
    return _hash([f"{each.path}\0{each.sha256}" for each in tree.files])


def name_of(path: Path, digest: str) -> str:
    """Name the revision: git's commit (with `-dirty` when files differ from it), else the contents' hash."""
    commit = _git(path, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return f"sha256:{digest[:12]}"
    changed = _git(path, "status", "--porcelain", "--", ".")
    return f"{commit}-dirty" if changed else commit


def _git(path: Path, *arguments: str) -> str:
    """Ask git about a folder; empty where there is no repository, no git, or no answer in time."""
    try:
        asked = subprocess.run(
            ["git", "-C", str(path), *arguments],  # noqa: S607 - git is where the operator's PATH says
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip()


def _hash(facts: list[str]) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
