"""Text to nodes: strict YAML on libyaml's parser, with limits that hold before anything is built or walked.

One pass over the parser's events. What is refused is collected with its place; only broken syntax and limits stop the
file, since nothing after them can be trusted. An alias costs what it expands to, so no short file becomes a large one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml

from reconciler.errors import Place, Problem
from reconciler.spec.nodes import NOT_ADDRESSABLE, Fields, Items, Node, Scalar
from reconciler.spec.scalars import NumberRefusedError, resolve
from reconciler.words import count

try:
    from yaml._yaml import CParser as _EventParser

    HAS_LIBYAML = True
except ImportError:
    from yaml import SafeLoader as _EventParser  # type: ignore[assignment]

    HAS_LIBYAML = False
"""Without libyaml the same events come from a parser eight times slower; `load` says so."""

_QUOTES: Final = ("'", '"')
_CORE_TAG: Final = "tag:yaml.org,2002:"
_ODD_LINE_BREAKS: Final = "\u0085\u2028\u2029"
_TURNING: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Bidirectional controls: they show a text in another order than it is read in ("trojan source")."""
_MISLEADING: Final = re.compile(f"[{_ODD_LINE_BREAKS}{_TURNING}]")
_BLOCKS: Final = ("|", ">")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a source may hold (security.md, rule 1)."""

    file_bytes: int = 256 * 1024
    tree_bytes: int = 64 * 1024 * 1024
    tree_files: int = 20_000
    depth: int = 32
    nodes: int = 20_000
    scalar: int = 64 * 1024
    keys: int = 512


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file. `faults` are the places of what was refused while reading it."""

    root: Node
    faults: Sequence[Place] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A file's documents, or why they could not all be read: then `readable` is False and there are none."""

    file: str
    documents: Sequence[Document] = ()
    problems: Sequence[Problem] = ()
    readable: bool = True


def read(file: str, content: bytes, limits: Limits) -> Source:
    """Read a file's bytes. `file` is what places will say."""
    if len(content) > limits.file_bytes:
        what = f"the file has more than {count(limits.file_bytes, 'byte')}"
        return _unreadable(Problem("yaml.limit", Place(file), "", what, "Split it into several files"))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        what = f"the file is not UTF-8: byte 0x{content[error.start]:02x}"
        return _unreadable(Problem("yaml.encoding", Place(file, line, column), "", what, "Save it as UTF-8"))
    if problem := _misleading(file, text):
        return _unreadable(problem)
    composer = _Composer(file, limits)
    try:
        documents = list(composer.documents(text))
    except _Stopped as stopped:
        return Source(file, problems=[*composer.problems, stopped.problem], readable=False)
    return Source(file, documents, composer.problems)


def lines_of_text(text: str) -> list[str]:
    """Split a text into lines as YAML counts them."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _misleading(file: str, text: str) -> Problem | None:
    """Refuse characters that people see otherwise than they are read: places would be off, and reviews deceived."""
    if text.isascii() or not (found := _MISLEADING.search(text)):
        return None
    code = ord(found[0])
    what = f"the character U+{code:04X} changes the order in which a text is shown"
    if found[0] in _ODD_LINE_BREAKS:
        what = f"the character U+{code:04X} ends a line in some programs and not in others"
    return Problem("yaml.encoding", Place(file, *_position(text, found.start())), "", what, _mend_of(code))


def _mend_of(code: int) -> str:
    """Say how to get rid of a character; no text can hold a NUL."""
    if code == 0:
        return "Take it out"
    escape = f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"  # noqa: PLR2004 - what four digits hold
    return f"Take it out, or write it as {escape} in double quotes"


def _unreadable(problem: Problem) -> Source:
    return Source(problem.place.file, problems=[problem], readable=False)


class _Stopped(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(slots=True)
class _Anchored:
    """What an alias stands for; `node` is None while the anchored node is still open."""

    node: Node | None = None
    size: int = 0
    height: int = 0


@dataclass(slots=True)
class _Composer:
    """Builds the nodes of one file."""

    file: str
    limits: Limits
    problems: list[Problem] = field(default_factory=list)
    _anchors: dict[str, _Anchored] = field(default_factory=dict)
    _count: int = 0

    def documents(self, text: str) -> Iterator[Document]:
        """Yield each document that is not empty. Raises _Stopped."""
        events = self._events(text)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                before = len(self.problems)
                if event.version or event.tags:
                    self._refuse(
                        "yaml.directive",
                        event,
                        "directives are not allowed",
                        "Take the line out: files follow YAML 1.2",
                    )
                root, _ = self._node(next(events), events, 1)
                if not (isinstance(root, Scalar) and root.value is None):
                    yield Document(root, [problem.place for problem in self.problems[before:]])

    def _events(self, text: str) -> Iterator[Any]:
        try:
            parser = _EventParser(text)
            while parser.check_event():
                yield parser.get_event()
        except yaml.reader.ReaderError as error:
            # `error.position` counts bytes with one parser and characters with the other.
            line, column = _position(text, max(0, text.find(chr(error.character))))
            what = f"the character U+{error.character:04X} is not allowed in YAML"
            raise _Stopped(
                Problem("yaml.encoding", Place(self.file, line, column), "", what, _mend_of(error.character))
            ) from error
        except yaml.MarkedYAMLError as error:
            raise _Stopped(self._syntax_problem(text, error)) from error

    def _syntax_problem(self, text: str, error: yaml.MarkedYAMLError) -> Problem:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        shown = lines_of_text(text)[line - 1 : line]
        what = ", ".join(part for part in (error.context, error.problem) if part)
        mend = 'Check the indentation here and above, and quote texts that hold ": " or " #"'
        if shown and shown[0][column - 1 : column] == "\t":
            what, mend = "a tab stands where only spaces may", "Indent with spaces"
        return Problem("yaml.syntax", Place(self.file, line, column), "", what, mend)

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> tuple[Node, int]:
        """Build the node that begins with `event`; also give its height."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        if depth > self.limits.depth:
            self._stop(event, f"nested deeper than {self.limits.depth} levels", "Flatten it")
        self._spend(1, event)
        if event.tag is not None:
            tag = _short(event.tag.replace(_CORE_TAG, "!!"))
            mend = "Take the tag out; quote what must stay a text"
            self._refuse("yaml.tag", event, f'the tag "{tag}" is not allowed', mend)
        before = self._count
        anchored = _Anchored()
        if event.anchor:
            self._anchors[event.anchor] = anchored
        node: Node
        height = 1
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node, height = self._items(event, events, depth)
        else:
            node, height = self._fields(event, events, depth)
        anchored.node, anchored.size, anchored.height = node, self._count - before + 1, height
        return node, height

    def _alias(self, event: Any, depth: int) -> tuple[Node, int]:
        anchored = self._anchors.get(event.anchor)
        if anchored is None or anchored.node is None:
            known = "stands inside what it names" if anchored else "names no anchor above it"
            self._refuse("yaml.alias", event, f'the alias "*{_short(event.anchor)}" {known}', "Write the value out")
            return Scalar(None, *_mark(event)), 1
        self._spend(anchored.size, event)
        if depth + anchored.height - 1 > self.limits.depth:
            self._stop(event, f"nested deeper than {self.limits.depth} levels through an alias", "Write less nesting")
        return anchored.node, anchored.height

    def _scalar(self, event: Any) -> Scalar:
        line, column, length = _mark(event)
        if len(event.value) > self.limits.scalar:
            what = f"a text of {len(event.value):,} characters, more than {self.limits.scalar:,}"
            self._stop(event, what, "Keep large texts in files of their own")
        if event.style in _BLOCKS:
            return Scalar(event.value, line, column, 1)
        inset = 1 if event.style in _QUOTES else 0
        exact = event.start_mark.line == event.end_mark.line and length == len(event.value) + 2 * inset
        value: Any = event.value
        if not event.style:
            try:
                value = resolve(event.value)
            except NumberRefusedError as error:
                self._refuse("yaml.number", event, str(error), "Write a whole number, or quote it")
                value = None
        return Scalar(value, line, column, length, inset if exact else NOT_ADDRESSABLE)

    def _items(self, event: Any, events: Iterator[Any], depth: int) -> tuple[Items, int]:
        items: list[Node] = []
        height = 0
        for inner in events:
            if isinstance(inner, yaml.SequenceEndEvent):
                break
            node, inner_height = self._node(inner, events, depth + 1)
            items.append(node)
            height = max(height, inner_height)
        return Items(items, *_mark(event)), height + 1

    def _fields(self, event: Any, events: Iterator[Any], depth: int) -> tuple[Fields, int]:
        pairs: dict[str, tuple[Scalar, Node]] = {}
        height = 0
        for inner in events:
            if isinstance(inner, yaml.MappingEndEvent):
                break
            key, key_height = self._node(inner, events, depth + 1)
            value, value_height = self._node(next(events), events, depth + 1)
            height = max(height, key_height, value_height)
            self._add(pairs, inner, key, value)
            if len(pairs) > self.limits.keys:
                self._stop(inner, f"a mapping of more than {self.limits.keys} keys", "Split it")
        return Fields(pairs, *_mark(event)), height + 1

    def _add(self, pairs: dict[str, tuple[Scalar, Node]], event: Any, key: Node, value: Node) -> None:
        """Add a pair, or say why it cannot be one."""
        name = key.value if isinstance(key, Scalar) else None
        if not isinstance(name, str) or not isinstance(key, Scalar):
            what, mend = "a key that is no text", "Write a text as the key"
            if isinstance(event, yaml.ScalarEvent):
                what, mend = f"the key {_short(event.value)} is no text", f'Quote it: "{_short(event.value)}"'
            self._refuse("yaml.key", event, what, mend)
        elif name == "<<" and key.inset == 0:
            mend = "Write the fields out; shared values will have kind: Defaults"
            self._refuse("yaml.merge-key", event, "merge keys are not allowed", mend)
        elif name in pairs:
            first = pairs[name][0]
            what = f'the key "{_short(name)}" is given twice: in line {first.line} and in line {key.line}'
            self._refuse("yaml.duplicate-key", event, what, "Keep one of them")
        else:
            pairs[name] = (key, value)

    def _spend(self, nodes: int, event: Any) -> None:
        self._count += nodes
        if self._count > self.limits.nodes:
            what = f"more than {count(self.limits.nodes, 'value')}, aliases written out"
            self._stop(event, what, "Split the file, and write fewer aliases")

    def _refuse(self, rule: str, event: Any, what: str, mend: str) -> None:
        self.problems.append(Problem(rule, Place(self.file, *_mark(event)), "", what, mend))

    def _stop(self, event: Any, what: str, mend: str) -> NoReturn:
        raise _Stopped(Problem("yaml.limit", Place(self.file, *_mark(event)), "", what, mend))


def _mark(event: Any) -> tuple[int, int, int]:
    """Give line, column and length; what spans lines is underlined at its first character only."""
    start, end = event.start_mark, event.end_mark
    length = end.column - start.column if start.line == end.line else 1
    return start.line + 1, start.column + 1, max(1, length)


def _position(text: str, at: int) -> tuple[int, int]:
    *before, last = lines_of_text(text[:at])
    return len(before) + 1, len(last) + 1


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004 - a line
