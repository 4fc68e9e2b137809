"""A document to a typed definition: the schema first, then the words for what it refuses, each at its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import Place, Problem
from reconciler.model.definition import Job, Json
from reconciler.model.kinds import KINDS, Defaults
from reconciler.spec import later
from reconciler.spec.nodes import (
    Fields,
    Node,
    Path,
    Scalar,
    dotted,
    find,
    in_file,
    place_at,
    place_of,
    place_of_key,
    value_of,
)
from reconciler.spec.schemas import JOB, Fault, faults, faults_by, handler_types, schema
from reconciler.spec.source import Document
from reconciler.spec.wording import Words, did_you_mean, one_of, plain, shown, words_of

PAYLOAD: Final = ("spec", "handler", "with")
_TIMINGS: Final = ("cron", "every", "at")
OWNERS: Final[Mapping[str, tuple[str, ...]]] = {
    "anchor": ("every",),
    "timeZone": ("cron", "at"),
    "dst": ("cron",),
    "dayRule": ("cron",),
}
"""Which triggers a field belongs to, by what says when they fire."""
_NOT_IN_PARAMETERS: Final = frozenset({"pattern", "patternProperties", "format", "$ref", "$id", "definitions"})
_NAME: Final = ("metadata", "name")
_NOT_IN_DEFAULTS: Final[Mapping[str, Words]] = {
    "defaults": Words("defaults.chain", "defaults take nothing from other defaults", "Write the fields out here"),
    "triggers": Words(
        "defaults.triggers", "triggers belong to one job", "Write what all triggers share under spec.trigger"
    ),
    **{
        name: Words("defaults.trigger", f'"{name}" belongs to one trigger', "Write it in the triggers themselves")
        for name in ("name", "cron", "every", "at", "anchor")
    },
}


@dataclass(slots=True)
class Candidate:
    """A document that wants to be a definition, and everything found wrong with it so far."""

    file: str
    root: Node
    document: Mapping[str, Json]
    """The plain document; empty when it is no mapping."""
    name: str | None
    """The definition's name, when it has a possible one: then it is known even if it is broken."""
    refused: Sequence[Place] = ()
    """The places of what the reading of the text refused already."""
    problems: list[Problem] = field(default_factory=list)
    waits_for: Candidate | None = None
    """The broken definition that this one refers to: nothing is wrong here, but nothing of it can be applied."""
    defaults: str = ""
    """The defaults that were merged into it."""
    is_partial: bool = False
    """Whether it lacks what its defaults would have said."""
    _paths: list[Path] = field(default_factory=list)
    _shared: Node | None = None

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found so far."""
        return not self.problems and not self.refused and self.waits_for is None

    @property
    def kind(self) -> str:
        """The kind; what has no known one counts as a job."""
        kind = self.value("kind")
        return kind if isinstance(kind, str) and kind in KINDS else Job.kind

    @property
    def is_job(self) -> bool:
        """Whether it says that it is a job."""
        return bool(self.value("kind") == Job.kind)

    @property
    def shared(self) -> Node:
        """The nodes as others take them over: each knows its file."""
        if self._shared is None:
            self._shared = in_file(self.root, self.file)
        return self._shared

    @property
    def place(self) -> Place:
        """Where the document begins."""
        return place_of(self.file, self.root)

    def value(self, *path: str | int) -> Json:
        """Give the value at a path, or None."""
        found: Json = self.document
        for step in path:
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and isinstance(step, int) and step < len(found):
                found = found[step]
            else:
                return None
        return found

    def items(self, *path: str | int) -> list[tuple[int, Mapping[str, Json]]]:
        """List the mappings of a list, with their indexes; nothing where it is no list."""
        value = self.value(*path)
        items = value if isinstance(value, list) else []
        return [(index, item) for index, item in enumerate(items) if isinstance(item, dict)]

    def is_clean(self, *path: str | int) -> bool:
        """Whether nothing was found at a path or below it."""
        return not self.refused and all(found[: len(path)] != path for found in self._paths)

    def wait_for(self, other: Candidate) -> None:
        """Hold this one back, since what it refers to is broken."""
        self.waits_for = other
        self.is_partial = True

    def add(self, words: Words, path: Path, place: Place, allowed: tuple[str, ...] = ()) -> None:
        """Add a problem, unless the reading of the text refused the same place already."""
        what = words.what
        node = find(self.root, path)
        if node is not None and node.file is not None:
            what += f' (job "{self.name}" takes it from defaults "{self.defaults}")'
        problem = Problem(words.rule, place, dotted(self.root, path), what, words.mend, allowed=allowed)
        if place not in self.refused and problem not in self.problems:
            self.problems.append(problem)
            self._paths.append(tuple(path))


def candidate(file: str, document: Document) -> Candidate:
    """Make a candidate of a document, of which only the name and the kind are looked at."""
    value = value_of(document.root) if isinstance(document.root, Fields) else {}
    return Candidate(file, document.root, value, _name_of(document.root), document.faults)


def check_shape(made: Candidate) -> None:
    """Check a candidate against the schema of its kind, and name its handler if that is unknown."""
    if not isinstance(made.root, Fields):
        what = f"{shown(value_of(made.root))} is no definition"
        made.add(Words("schema.type", what, "Write apiVersion, kind, metadata and spec"), (), made.place)
    elif _is_kind_known(made):
        for fault in faults(made.kind.lower(), made.document):
            _add(made, fault, ())
        _check_handler(made)


def _name_of(root: Node) -> str | None:
    node = find(root, _NAME)
    if isinstance(node, Scalar) and not any(faults_by(schema(JOB)["definitions"]["name"], node.value)):
        return str(node.value)
    return None


def _is_kind_known(made: Candidate) -> bool:
    """Refuse other kinds as a whole: what they would hold is not ours to judge."""
    kind = made.value("kind")
    if not isinstance(kind, str) or kind in KINDS:
        return True
    place = place_at(made.file, made.root, ("kind",))
    if kind in later.KINDS:
        made.add(_not_yet(f"kind {kind}"), ("kind",), place)
    else:
        mend = did_you_mean(kind, (*KINDS, *later.KINDS), otherwise=f"Write {one_of(KINDS)}")
        made.add(Words("schema.unknown-kind", f'unknown kind "{kind}"', mend), ("kind",), place)
    return False


def _check_handler(made: Candidate) -> None:
    path = ("spec", "job", "handler", "type") if made.kind == Defaults.kind else ("spec", "handler", "type")
    kind = made.value(*path)
    if not isinstance(kind, str):
        return
    if kind in later.HANDLERS:
        made.add(_not_yet(f"handler {kind}"), path, place_at(made.file, made.root, path))
    elif kind not in handler_types():
        mend = did_you_mean(kind, handler_types(), otherwise=f"Write {one_of(handler_types())}")
        words = Words("schema.unknown-handler", f'unknown handler "{kind}"', mend)
        made.add(words, path, place_at(made.file, made.root, path))


def add_payload_fault(made: Candidate, fault: Fault) -> None:
    """Add what a handler's schema says of the payload."""
    _add(made, fault, PAYLOAD)


def _add(made: Candidate, fault: Fault, base: Path) -> None:
    path = (*base, *fault.path)
    match fault.keyword:
        case "additionalProperties" if isinstance(fault.limit, bool):
            _add_unknown(made, fault, path)
        case "required":
            _add_missing(made, fault, path)
        case "oneOf" | "not" | "dependencies" if path[:2] == ("spec", "triggers"):
            _add_timing(made, fault, path)
        case _ if fault.is_name:
            path = (*path, fault.value)
            made.add(words_of(fault), path, place_of_key(made.file, made.root, path))
        case _:
            words = words_of(fault)
            if words.rule == "schema.range" and isinstance(path[-1], str):
                words = words._replace(what=f"{path[-1]} {words.what}")
            made.add(words, path, place_at(made.file, made.root, path))


def _add_unknown(made: Candidate, fault: Fault, path: Path) -> None:
    allowed = sorted(fault.schema["properties"])
    soon = later.FIELDS.get(_kind_of_place(path), frozenset())
    for name in fault.value:
        if name in allowed:
            continue
        if name in soon:
            words = _not_yet(f'"{name}"')
        elif not path and name == "status":
            mend = "Take it out: the state is shown by `reconciler get`, never written to a file"
            words = Words("schema.unknown-field", 'unknown field "status"', mend)
        elif path[:1] == ("spec",) and made.kind == Defaults.kind and name in _NOT_IN_DEFAULTS:
            words = _NOT_IN_DEFAULTS[name]
        elif path[:2] == ("spec", "parameters") and name in _NOT_IN_PARAMETERS:
            mend = "Take it out: patterns could make a check run for ever, formats and references are not followed"
            words = Words("schema.unknown-field", f'"{name}" is not allowed in the schema of a parameter', mend)
        else:
            mend = did_you_mean(name, [*allowed, *soon], otherwise=f"Allowed here: {', '.join(allowed)}")
            words = Words("schema.unknown-field", f'unknown field "{name}"', mend)
        listed = () if path[: len(PAYLOAD)] == PAYLOAD else tuple(allowed)
        made.add(words, (*path, name), place_of_key(made.file, made.root, (*path, name)), listed)


def _kind_of_place(path: Path) -> str:
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _not_yet(what: str) -> Words:
    return Words("schema.not-yet", f"{what} is not supported yet", "Take it out: this version would not act on it")


def _add_missing(made: Candidate, fault: Fault, path: Path) -> None:
    if made.refused or (made.is_partial and path[:1] == ("spec",) and all(isinstance(step, str) for step in path)):
        return  # it may be what the reading of the text refused, or what the defaults say (of mappings, not of lists)
    for name in fault.limit:
        if name not in fault.value:
            field_schema = fault.schema.get("properties", {}).get(name, {})
            example = next(iter(field_schema.get("examples", ())), None)
            such_as = f', such as "{name}: {plain(example)}"' if isinstance(example, str | int) else ""
            words = Words("schema.required", f'"{name}" is missing', f"Add {name}{such_as}")
            made.add(words, (*path, name), place_of_key(made.file, made.root, path))


def _add_timing(made: Candidate, fault: Fault, path: Path) -> None:
    """Say which of cron, every and at a trigger has too many or too few of, and what belongs to which."""
    if not isinstance(fault.value, Mapping):
        return  # told already: a trigger is a mapping
    given = [name for name in fault.value if name in _TIMINGS]
    if fault.keyword == "oneOf":
        if not given and "on" not in fault.value:
            words = Words("trigger.timing", "the trigger does not say when it fires", "Add one of cron, every and at")
            made.add(words, path, place_of_key(made.file, made.root, path))
        for extra in given[1:]:
            what, mend = f"{given[0]} and {extra} exclude each other", "Keep one, or write two triggers"
            made.add(
                Words("trigger.timing", what, mend), (*path, extra), place_of_key(made.file, made.root, (*path, extra))
            )
    elif len(given) == 1:
        for name, owner in OWNERS.items():
            if name in fault.value and given[0] not in owner:
                what = f"{name} belongs to {' and '.join(owner)}, not to {given[0]}"
                place = place_of_key(made.file, made.root, (*path, name))
                made.add(Words("trigger.timing", what, "Take it out"), (*path, name), place)
