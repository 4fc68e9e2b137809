"""The nodes of a YAML document with their places, and the way from a path or an offset to a place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.errors import Place
from reconciler.model.definition import Json
from reconciler.model.tree import item_key

NOT_ADDRESSABLE: Final = -1


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, number, truth value or null. Lines and columns count from 1."""

    value: Json
    line: int
    column: int
    length: int
    inset: int = NOT_ADDRESSABLE
    """How many characters stand before the value's first (a quote); -1 where offsets do not map to columns."""
    file: str | None = None
    """The file it stands in, where that is another than its document's: values that a job takes from its defaults."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: Sequence[Node]
    line: int
    column: int
    length: int = 1
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping: each key with its own place."""

    pairs: Mapping[str, tuple[Scalar, Node]]
    line: int
    column: int
    length: int = 1
    file: str | None = None


Node = Scalar | Items | Fields
Path = Sequence[str | int]


def value_of(node: Node) -> Json:
    """Give a node's plain value."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [value_of(item) for item in node.items]
        case Fields():
            return {name: value_of(value) for name, (_, value) in node.pairs.items()}


def in_file(node: Node, file: str) -> Node:
    """Give the same nodes, each with the name of the file that it stands in."""
    match node:
        case Scalar():
            return dataclasses.replace(node, file=file)
        case Items():
            return dataclasses.replace(node, items=[in_file(item, file) for item in node.items], file=file)
        case Fields():
            pairs = {
                name: (dataclasses.replace(key, file=file), in_file(value, file))
                for name, (key, value) in node.pairs.items()
            }
            return dataclasses.replace(node, pairs=pairs, file=file)


def find(node: Node, path: Path) -> Node | None:
    """Give the node at a path, if there is one."""
    found: Node | None = node
    for step in path:
        match found:
            case Fields() if isinstance(step, str) and step in found.pairs:
                found = found.pairs[step][1]
            case Items() if isinstance(step, int) and step < len(found.items):
                found = found.items[step]
            case _:
                return None
    return found


def place_of(file: str, node: Node) -> Place:
    """Give the place of a node itself."""
    return Place(node.file or file, node.line, node.column, node.length)


def place_at(file: str, root: Node, path: Path) -> Place:
    """Give the place of the value at a path; of something missing, the place where its parent is named."""
    for end in range(len(path), 0, -1):
        node = find(root, path[:end])
        if isinstance(node, Scalar) and end == len(path):
            return place_of(file, node)
        if node is not None:
            return place_of_key(file, root, path[:end])
    return place_of(file, root)


def place_of_key(file: str, root: Node, path: Path) -> Place:
    """Give the place of the key (or list item) that a path ends with."""
    parent = find(root, path[:-1]) if path else None
    if isinstance(parent, Fields) and isinstance(path[-1], str) and path[-1] in parent.pairs:
        return place_of(file, parent.pairs[path[-1]][0])
    return place_of(file, find(root, path) or root)


def place_inside(file: str, scalar: Scalar, offset: int, length: int) -> Place:
    """Give the place of a part of a text: exact where the text stands in one line as it is, else the whole scalar."""
    if scalar.inset == NOT_ADDRESSABLE:
        return place_of(file, scalar)
    return Place(scalar.file or file, scalar.line, scalar.column + scalar.inset + offset, length)


def dotted(root: Node, path: Path) -> str:
    """Print a path as people read it: `spec.triggers[weekdays].cron`."""
    shown = ""
    for at, step in enumerate(path):
        if isinstance(step, str):
            shown += f".{step}" if shown else step
        else:
            item = find(root, path[: at + 1])
            shown += f"[{item_key(None if item is None else value_of(item), step)}]"
    return shown


def keys_in(node: Node, path: str = "", key: Node | None = None) -> Iterator[tuple[str, Node]]:
    """List what names each field, and each group of fields, by the paths `model.tree.flatten` gives them."""
    yield path, key or node
    match node:
        case Fields():
            for name, (inner, value) in node.pairs.items():
                yield from keys_in(value, f"{path}.{name}" if path else name, inner)
        case Items() if node.items and all(isinstance(item, Fields) for item in node.items):
            for index, item in enumerate(node.items):
                yield from keys_in(item, f"{path}[{item_key(value_of(item), index)}]")
        case _:
            pass
