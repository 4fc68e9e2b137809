"""The files of a directory as a git revision holds them, read through git's plumbing: nothing is checked out.

Only `git rev-parse`, `ls-tree` and `cat-file` run, with arguments as a list; a revision never begins with a hyphen.
"""

from __future__ import annotations

import posixpath
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from reconciler.errors import UsageError
from reconciler.model.tree import Ignored
from reconciler.spec.files import Content, Scan, SourceUnavailableError, shown, why_ignored
from reconciler.spec.source import Limits
from reconciler.words import count

_TIMEOUT_SECONDS: Final = 60
_FILE_MODES: Final = ("100644", "100755")
_LINK_MODE: Final = "120000"


class RevisionUnreadableError(SourceUnavailableError):
    """The revision is there, but git cannot give all of it: not the same as empty."""

    MEND: ClassVar[str] = "Let git get what it lacks (`git fetch`; `git fsck` shows what), or compare with a folder"


@dataclass(frozen=True, slots=True)
class _Entry:
    mode: str
    blob: str


def scan_revision(path: str | Path, revision: str, limits: Limits) -> Scan:
    """Read every definition file under a directory as committed; none where the revision has no such directory.

    Raises UsageError for what is no revision, SourceUnavailableError where git cannot be asked, and its
    RevisionUnreadableError where git does not have all of the revision (a partial clone, a damaged repository).
    """
    folder = _existing_folder(Path(path))
    if not revision or revision.startswith("-") or not revision.isprintable():
        raise UsageError(f"{shown(revision)!r} is no git revision")
    prefix = _git(folder, "rev-parse", "--show-prefix").decode().strip()
    missing = str(Path(path).resolve().relative_to(folder.resolve()))
    prefix = posixpath.normpath(posixpath.join(prefix, missing))
    try:
        commit = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except RevisionUnreadableError:
        raise
    except SourceUnavailableError as error:
        raise UsageError(f"{folder} has no git revision {revision!r}") from error
    try:
        entries = _entries(folder, commit.decode().strip(), "" if prefix == "." else prefix)
        return _read(folder, entries, Scan(str(path)), limits)
    except SourceUnavailableError as error:
        raise RevisionUnreadableError(f"revision {revision} cannot be read: {error}") from error


def _existing_folder(path: Path) -> Path:
    """Give the folder, or the nearest one above it: a path may exist in the revision only."""
    for folder in (path, *path.resolve().parents):
        if folder.is_dir():
            return folder
    raise SourceUnavailableError(f"{path} does not exist")


def _entries(folder: Path, commit: str, prefix: str) -> Mapping[str, _Entry]:
    if prefix and not _git(folder, "--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, "--", prefix):
        return {}
    listed = _git(folder, "ls-tree", "-r", "-z", "--full-tree", f"{commit}:{prefix}")
    entries: dict[str, _Entry] = {}
    for line in listed.split(b"\0"):
        facts, tab, name = line.partition(b"\t")
        if tab:
            mode, _kind, blob = facts.decode().split(" ")
            entries[name.decode("utf-8", errors="surrogateescape")] = _Entry(mode, blob)
    return entries


def _read(folder: Path, entries: Mapping[str, _Entry], found: Scan, limits: Limits) -> Scan:
    wanted: dict[str, str] = {}
    links = [path for path, entry in entries.items() if entry.mode == _LINK_MODE and not _why_ignored(path)]
    targets = dict(zip(links, _blobs(folder, [entries[path].blob for path in links]), strict=True))
    for path, entry in entries.items():
        if why := _why_ignored(path):
            found.ignored.append(Ignored(shown(path), why))
        elif entry.mode in _FILE_MODES:
            wanted[path] = entry.blob
        elif path in targets:
            blob = _followed(found, entries, path, targets[path].decode("utf-8", errors="replace"))
            wanted |= {} if blob is None else {path: blob}
        else:
            found.miss("file.kind", path, "not a regular file", "Take it out of the directory")
    if len(wanted) > limits.tree_files:
        found.miss(
            "tree.limit", "", f"more than {count(limits.tree_files, 'file')}", "Split the tree into several sources"
        )
        return found
    paths = sorted(wanted)
    contents = _blobs(folder, [wanted[path] for path in paths])
    found.contents += [Content(path, content) for path, content in zip(paths, contents, strict=True)]
    return found


def _followed(found: Scan, entries: Mapping[str, _Entry], path: str, target: str) -> str | None:
    """Follow a committed link once, by the same rules as on disk."""
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    mend = "Point it inside the directory, or take it out"
    if target.startswith("/") or inside.startswith(".."):
        found.miss("file.link", path, "a link that leaves the directory", mend)
    elif inside not in entries or entries[inside].mode not in _FILE_MODES:
        found.miss("file.link", path, "a link that leads nowhere", mend)
    elif _why_ignored(inside):
        return entries[inside].blob
    else:
        found.ignored.append(Ignored(shown(path), f"a link to {shown(inside)}, which is read itself"))
    return None


def _why_ignored(path: str) -> str | None:
    *folders, name = path.split("/")
    return "begins with a dot" if any(folder.startswith(".") for folder in folders) else why_ignored(name)


def _blobs(folder: Path, blobs: Sequence[str]) -> list[bytes]:
    """Read many objects through one process."""
    if not blobs:
        return []
    answer = _git(folder, "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode())
    contents: list[bytes] = []
    at = 0
    for blob in blobs:
        end = answer.index(b"\n", at)
        _name, kind, *rest = answer[at:end].split(b" ")
        if not rest:
            raise SourceUnavailableError(f"git: object {blob} is {kind.decode()}")
        size = int(rest[0])
        contents.append(answer[end + 1 : end + 1 + size])
        at = end + 1 + size + 1
    return contents


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    program = shutil.which("git")
    if program is None:
        raise SourceUnavailableError("git is not installed, so no revision can be read")
    try:
        done = subprocess.run(
            [program, "-C", str(folder), *arguments],
            input=stdin,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RevisionUnreadableError(f"git did not answer within {_TIMEOUT_SECONDS} s") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", errors="replace").strip()
        raise SourceUnavailableError(f"git: {said or f'exit code {done.returncode}'}")
    return done.stdout
