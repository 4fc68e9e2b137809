"""`reconciler.yaml`: read as strictly as definition files, every problem at once, each at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from reconciler.cli.keys import TIME_ZONE, held_in_file, keys, twin_of
from reconciler.cli.relations import Misfit
from reconciler.cli.secrets import Cover, words_of_setting
from reconciler.errors import Place, Problem, UsageError, in_order
from reconciler.schedule import TimingError
from reconciler.schedule.zones import load_zone
from reconciler.spec.nodes import Fields, Node, dotted, find, place_at, place_of, place_of_key, value_of
from reconciler.spec.report import frame
from reconciler.spec.schemas import CONFIG_FILE, Fault, faults
from reconciler.spec.source import Limits, read
from reconciler.spec.wording import Words, did_you_mean, nearest
from reconciler.words import count

LATER: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"retention"}),
    "guard": frozenset({"onTrip"}),
    "node": frozenset({"resources"}),
    "sources[]": frozenset({"verify"}),
}
"""Keys that are planned and do nothing yet, by where they belong: refused by name, never accepted and ignored."""


@dataclass(frozen=True, slots=True)
class Written:
    """A value of the file, by its key, and where it stands."""

    value: Any
    place: Place


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file as it was read: the settings that are sound, and all that is wrong with it."""

    path: Path
    text: str = field(repr=False)
    root: Node | None
    written: Mapping[str, Written]
    problems: Sequence[Problem]
    doubtful: frozenset[str]
    """The keys of which nobody knows what they are to be: their values are wrong, or perhaps their names."""

    def problem(self, misfit: Misfit, words: str) -> Problem:
        """Show a misfit at the first of its keys."""
        path = (*misfit.keys[0].split("."), *misfit.inside)
        place = Place(str(self.path)) if self.root is None else place_at(str(self.path), self.root, path)
        return Problem(misfit.rule, place, misfit.keys[0], words, misfit.mend)

    def report(self, further: Sequence[Problem] = ()) -> str:
        """Show every problem with the line it stands in, secrets covered."""
        problems, cover = in_order([*self.problems, *further]), Cover.of(self.text)
        told = [replace(each, what=cover.words(each.what), mend=cover.words(each.mend)) for each in problems]
        text = cover.lines()
        frames = [f"{frame(each, text)}\n" for each in told]
        return "\n".join([*frames, f"{count(len(problems), 'error')} in {self.path}"])


def read_file(path: Path) -> SettingsFile:
    """Read a file with all that is wrong with it. Raises UsageError when it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise UsageError(f"{path} cannot be read: {(fault.strerror or 'unknown error').lower()}") from fault
    source = read(str(path), content, Limits())
    problems = list(source.problems)
    roots = [document.root for document in source.documents]
    if len(roots) > 1:
        problems.append(_several(str(path), roots[1]))
    root = roots[0] if roots else None
    if root is not None:
        refused = [problem.place for problem in source.problems]  # what stands there was told already
        problems += [problem for problem in _problems(str(path), root) if problem.place not in refused]
    written = {} if root is None else dict(_leaves(str(path), root))
    doubtful = frozenset(_doubtful(problems, written) if source.readable else keys())
    sound = {key: each for key, each in written.items() if key not in doubtful}
    return SettingsFile(path, content.decode("utf-8", errors="replace"), root, sound, problems, doubtful)


def _doubtful(problems: Sequence[Problem], written: Mapping[str, Written]) -> Iterator[str]:
    """List the keys that problems are about, and those that an unknown one may be meant to be."""
    for problem in problems:
        where = problem.where
        if problem.rule == "schema.unknown-field":
            group, _, name = where.rpartition(".")
            meant = nearest(name, problem.allowed) or name
            where = f"{group}.{meant}" if group else meant
        for key in keys():
            is_in_line = not where and key in written and written[key].place.line == problem.place.line
            is_meant = where in {key, twin_of(key)} or where.startswith((f"{key}.", f"{key}["))
            if is_in_line or is_meant or (where and key.startswith(f"{where}.")):
                yield key


def _several(file: str, root: Node) -> Problem:
    what = "the file holds a second document"
    return Problem("config.documents", place_of(file, root), "", what, "Write everything in one, without ---")


def _problems(file: str, root: Node) -> list[Problem]:
    """Check the shape of the file, and what a schema cannot say."""
    value = value_of(root)
    if not isinstance(value, dict):
        what = "the file holds no mapping of settings"
        return [Problem("schema.type", place_of(file, root), "", what, "Write keys such as `store:` or `sources:`")]
    found = [problem for fault in faults(CONFIG_FILE, value) for problem in _told(file, root, fault)]
    found += list(_twice(file, root))
    path = tuple(TIME_ZONE.split("."))
    node = find(root, path)
    zone = None if node is None else value_of(node)
    if isinstance(zone, str) and (words_of_zone := zone_words(zone)):
        found.append(_problem(root, words_of_zone, path, place_at(file, root, path)))
    return found


def _twice(file: str, root: Node) -> Iterator[Problem]:
    """Find secrets that are given both as they are and by the name of a file."""
    for key in keys():
        held = held_in_file(key)
        path, of_file = tuple((held or "").split(".")), tuple(key.split("."))
        if held and find(root, path) is not None and find(root, of_file) is not None:
            words = Words("config.twice", f"{path[-1]} and {of_file[-1]} exclude each other", "Keep one of them")
            yield _problem(root, words, of_file, place_of_key(file, root, of_file))


def zone_words(name: str) -> Words | None:
    """Say why a text is no time zone; None when it is one."""
    try:
        load_zone(name)
    except TimingError as fault:
        return Words(fault.rule, fault.what, fault.mend)
    return None


def _told(file: str, root: Node, fault: Fault) -> Iterator[Problem]:
    path = fault.path
    match fault.keyword:
        case "additionalProperties" if isinstance(fault.limit, bool):
            for name in fault.value.keys() - fault.schema["properties"].keys():
                here = (*path, name)
                problem = _problem(root, _unknown(fault, name), here, place_of_key(file, root, here))
                yield replace(problem, allowed=tuple(sorted(fault.schema["properties"])))
        case "required":
            for name in (each for each in fault.limit if each not in fault.value):
                words = Words("schema.required", f'"{name}" is missing', f"Add {name}")
                yield _problem(root, words, (*path, name), place_of_key(file, root, path))
        case _:
            words = words_of_setting(dotted(root, path), fault)
            if words.rule == "schema.range" and isinstance(path[-1], str):
                words = words._replace(what=f"{path[-1]} {words.what}")
            yield _problem(root, words, path, place_at(file, root, path))


def _unknown(fault: Fault, name: str) -> Words:
    allowed = sorted(fault.schema["properties"])
    place = "".join("[]" if isinstance(step, int) else f".{step}" for step in fault.path).removeprefix(".")
    soon = LATER.get(place, frozenset())
    if name in soon:
        what, mend = f'"{name}" is not supported yet', "Take it out: this version would not act on it"
        return Words("schema.not-yet", what, mend)
    mend = did_you_mean(name, [*allowed, *soon], otherwise=f"Allowed here: {', '.join(allowed)}")
    return Words("schema.unknown-field", f'unknown field "{name}"', mend)


def _problem(root: Node, words: Words, path: Sequence[str | int], place: Place) -> Problem:
    return Problem(words.rule, place, dotted(root, path), words.what, words.mend)


def _leaves(file: str, root: Node) -> Iterator[tuple[str, Written]]:
    if not isinstance(root, Fields):
        return
    for key in keys():
        path = tuple(key.split("."))
        node = find(root, path)
        if node is not None:
            yield key, Written(value_of(node), place_at(file, root, path))
