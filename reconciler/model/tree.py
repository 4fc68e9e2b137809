"""What a source declares, once read: definitions with their places, and all that is wrong.

`spec` reads a directory into a `Tree`, `plan` compares a `Tree` with the store; neither needs to know the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.errors import Place, Problem, Severity
from reconciler.model.definition import Json
from reconciler.model.kinds import Declared, Key, key_of


@dataclass(frozen=True, slots=True)
class Definition:
    """A valid definition: what is declared, where its document begins, and where each of its fields stands."""

    declared: Declared
    place: Place
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Line by dotted path, as `flatten` writes it: `spec.triggers[weekdays].cron`."""
    inherited: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where fields came from that a job does not say itself, by the same paths: the defaults and their place."""

    @property
    def key(self) -> Key:
        """What it is known by."""
        return key_of(self.declared)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read, relative to its source, and the hash of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A name that was not read, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything a source declares at one moment.

    `complete` is False when some file's definitions could not be enumerated: then nothing may be pruned. The names in
    `broken_names` belong to definitions that are invalid: their last good versions go on.
    """

    root: str
    definitions: Sequence[Definition] = ()
    problems: Sequence[Problem] = ()
    files: Sequence[SourceFile] = ()
    ignored: Sequence[Ignored] = ()
    complete: bool = True
    broken_names: Mapping[Key, Place] = field(default_factory=dict)
    faults: Mapping[Key, Sequence[Problem]] = field(default_factory=dict)
    """What holds each of `broken_names` back, in order; it may stand in the file of what the definition refers to."""
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The text of each file with problems, by the name its places carry; reports show lines of it."""

    @property
    def errors(self) -> list[Problem]:
        """The problems that make something invalid."""
        return [problem for problem in self.problems if problem.severity is Severity.ERROR]


def flatten(document: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """List a document's fields by dotted path; items of a list that have names go by them."""
    if isinstance(document, Mapping) and document:
        for key, value in document.items():
            yield from flatten(value, f"{path}.{key}" if path else key)
    elif isinstance(document, Sequence) and document and all(isinstance(item, Mapping) for item in document):
        for index, item in enumerate(document):
            yield from flatten(item, f"{path}[{item_key(item, index)}]")
    else:
        yield path, document


def item_key(item: Json, index: int) -> str:
    """Give what stands between brackets in the path of a list item: its name, else its index."""
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) and name else str(index)
