"""The files of a directory, read without trusting it: regular files only, nothing from outside, nothing too large.

The directory is opened once and everything is reached from its descriptor, never following a link on the way, so a
link swapped meanwhile leads nowhere. A link is followed only when it stays inside and leads to what the walk would
not meet by itself (`job.yaml -> ..data/job.yaml` of a mounted ConfigMap); each content is read once.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final

from reconciler.errors import Place, Problem, RefusedError
from reconciler.model.tree import Ignored
from reconciler.spec.source import Limits
from reconciler.words import count

ICALENDAR: Final = ".ics"
"""The suffix of files that calendars refer to; they declare nothing themselves."""
SUFFIXES: Final = (".yaml", ".yml", ICALENDAR)
_OTHER_FILES: Final = frozenset(
    {".cfg", ".csv", ".html", ".ini", ".jpg", ".json", ".lock", ".log", ".md", ".pdf", ".png", ".py", ".rst"}
    | {".sh", ".sql", ".svg", ".toml", ".tsv", ".txt", ".xml", ".zip"}
)
"""Suffixes that only files have; any other dotted name (`team.d`, `etl.v2`) may be that of a folder."""
_MAX_DEPTH: Final = 32
_MAX_STEPS: Final = 512
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not make us wait


class SourceUnavailableError(RefusedError):
    """The source's directory is missing or cannot be read: not the same as empty, so everything stays as it is."""

    MEND: ClassVar[str] = "Name the folder that holds the definitions, or write examples with `reconciler init`"

    @property
    def refusal(self) -> str:
        """Say it to whoever wanted to read or to apply it."""
        return f"{self}: nothing is applied and nothing pruned. {self.MEND}"


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, by its path from the root (with slashes)."""

    path: str
    content: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """The hash that tells whether anything changed."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(slots=True)
class Scan:
    """What a walk met. `complete` is False when something that may hold definitions could not be read."""

    root: str
    contents: list[Content] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    complete: bool = True

    def place(self, path: str) -> Place:
        """Give the place of a file as reports show it: the root as it was named, then the path."""
        return Place(shown(f"{self.root.rstrip('/')}/{path}" if path else self.root))

    def miss(self, rule: str, path: str, what: str, mend: str) -> None:
        """Record something that could not be read."""
        self.problems.append(Problem(rule, self.place(path), "", what, mend))
        self.complete = False


def scan(root: str | Path, limits: Limits) -> Scan:
    """Read every definition file under a directory, sorted by path. Raises SourceUnavailableError."""
    descriptor = _opened(root)
    walk = _Walk(Scan(str(root)), limits, descriptor)
    try:
        walk.directory(descriptor, PurePosixPath())
        if os.fstat(descriptor).st_nlink == 0:
            raise SourceUnavailableError(f"{root} was removed while it was read")
    except OSError as error:
        raise SourceUnavailableError(f"{root} cannot be read: {_reason(error)}") from error
    finally:
        os.close(descriptor)
    return walk.finished()


def find(root: str | Path) -> None:
    """See that a directory is there. Raises SourceUnavailableError."""
    os.close(_opened(root))


def _opened(root: str | Path) -> int:
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SourceUnavailableError(f"{root} cannot be read: {_reason(error)}") from error


def single(path: str | Path, limits: Limits) -> Scan:
    """Read one file that was named. Raises SourceUnavailableError."""
    found = Scan(str(path))
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SourceUnavailableError(f"{path} is no regular file")
            found.contents.append(Content("", file.read(limits.file_bytes + 1)))
    except OSError as error:
        raise SourceUnavailableError(f"{path} cannot be read: {_reason(error)}") from error
    return found


def why_ignored(name: str) -> str | None:
    """Say why a file of this name is not read; None when it is."""
    if name.startswith("."):
        return "begins with a dot"
    if not name.endswith(SUFFIXES):
        return "does not end in .yaml, .yml or .ics"
    return None


@dataclass(slots=True)
class _Walk:
    """One walk from the root's descriptor."""

    found: Scan
    limits: Limits
    descriptor: int
    _links: list[PurePosixPath] = field(default_factory=list)
    _bytes: int = 0
    _files: int = 0
    _full: bool = False

    def finished(self) -> Scan:
        self.found.contents.sort(key=lambda content: content.path)
        self.found.ignored.sort(key=lambda ignored: ignored.path)
        return self.found

    def directory(self, descriptor: int, path: PurePosixPath) -> None:
        """Read a directory and what is below it. Raises OSError when the directory itself cannot be listed."""
        for name in sorted(os.listdir(descriptor)):
            if self._full:
                return
            self._entry(descriptor, path / name)

    def _entry(self, descriptor: int, path: PurePosixPath) -> None:
        try:
            mode = os.lstat(path.name, dir_fd=descriptor).st_mode
            if stat.S_ISLNK(mode):
                self._link(path)
            elif stat.S_ISDIR(mode):
                self._below(descriptor, path)
            elif why := why_ignored(path.name):
                self._ignore(path, why)
            elif not stat.S_ISREG(mode):
                self.found.miss("file.kind", str(path), "not a regular file", "Take it out of the directory")
            else:
                self._file(descriptor, path.name, path)
        except OSError as error:
            self.found.miss("file.unreadable", str(path), _reason(error), "Make it readable, or take it out")

    def _below(self, descriptor: int, path: PurePosixPath) -> None:
        if path.name.startswith("."):
            self._ignore(path, "begins with a dot")
        elif len(path.parts) > _MAX_DEPTH:
            what = f"folders nested deeper than {_MAX_DEPTH}"
            self.found.miss("tree.limit", str(path), what, "Flatten the tree")
        else:
            inner = os.open(path.name, _DIRECTORY, dir_fd=descriptor)
            try:
                self.directory(inner, path)
            finally:
                os.close(inner)

    def _link(self, path: PurePosixPath) -> None:
        """Follow a link when it stays inside and leads to what the walk does not meet by itself."""
        if path.name.startswith("."):
            self._ignore(path, "begins with a dot")
            return
        try:
            target = self._resolved(path)
            mode = os.lstat(str(target or "."), dir_fd=self.descriptor).st_mode
        except OSError:
            self._bad_link(path, "a link that leads nowhere")
            return
        if target is None:
            self._bad_link(path, "a link that leaves the directory")
        elif stat.S_ISDIR(mode):
            self._linked_directory(path, target)
        elif why := why_ignored(path.name):
            self._ignore(path, why)
        elif not _is_hidden(target) and why_ignored(target.name) is None:
            self._ignore(path, f"a link to {shown(str(target))}, which is read itself")
        else:
            with _folder(self.descriptor, target.parent) as parent:
                self._file(parent, target.name, path)

    def _linked_directory(self, path: PurePosixPath, target: PurePosixPath) -> None:
        if not _is_hidden(target) or target in self._links:
            self._ignore(path, f"a link to {shown(str(target))}, which is read itself")
            return
        self._links.append(target)
        with _folder(self.descriptor, target) as inner:
            self.directory(inner, path)

    def _resolved(self, path: PurePosixPath) -> PurePosixPath | None:
        """Follow links from the root's descriptor; None when they leave it. Raises OSError."""
        pending, done = list(path.parts), PurePosixPath()
        for _ in range(_MAX_STEPS):
            if not pending:
                return done
            step = done / pending.pop(0)
            if step.name == "..":
                if len(done.parts) == 0:
                    return None
                done = done.parent
            elif stat.S_ISLNK(os.lstat(step, dir_fd=self.descriptor).st_mode):
                target = PurePosixPath(os.readlink(step, dir_fd=self.descriptor))
                if target.is_absolute():
                    real_root = os.path.realpath(self.found.root)
                    if not target.is_relative_to(real_root):
                        return None
                    target, done = target.relative_to(real_root), PurePosixPath()
                pending = [*target.parts, *pending]
            else:
                done = step
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _bad_link(self, path: PurePosixPath, what: str) -> None:
        """A bad link matters unless its name says that it stands for a file of another kind, not for a folder."""
        why = why_ignored(path.name)
        if why and path.suffix.lower() in _OTHER_FILES:
            self._ignore(path, why)
        else:
            self.found.miss("file.link", str(path), what, "Point it inside the directory, or take it out")

    def _file(self, descriptor: int, name: str, path: PurePosixPath) -> None:
        opened = os.open(name, _FILE, dir_fd=descriptor)
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                self.found.miss("file.kind", str(path), "not a regular file", "Take it out of the directory")
                return
            content = file.read(self.limits.file_bytes + 1)
        self._files += 1
        self._bytes += len(content)
        too_many = self._files > self.limits.tree_files
        if too_many or self._bytes > self.limits.tree_bytes:
            limit = count(self.limits.tree_files, "file") if too_many else count(self.limits.tree_bytes, "byte")
            what = f"the tree has more than {limit}"
            self.found.miss("tree.limit", "", what, "Split the tree into several sources")
            self._full = True
        elif not str(path).isprintable():
            self.found.miss("file.name", str(path), "a name with characters that cannot be shown", "Rename it")
        else:
            self.found.contents.append(Content(str(path), content))

    def _ignore(self, path: PurePosixPath, why: str) -> None:
        self.found.ignored.append(Ignored(shown(str(path)), why))


@contextmanager
def _folder(root: int, path: PurePosixPath) -> Iterator[int]:
    """Open a folder from the root's descriptor, one real folder at a time."""
    descriptor = os.dup(root)
    try:
        for part in path.parts:
            inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def shown(text: str) -> str:
    """Print a name so that no character of it can do anything."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _reason(error: OSError) -> str:
    return (error.strerror or "unknown error").lower()
