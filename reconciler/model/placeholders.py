"""Placeholders in payloads: `{{ slot | date("%Y-%m-%d") }}`, a closed language without calls, loops or nesting.

A placeholder is a dotted name from a fixed list and, for `slot`, filters from a fixed list. It is read by hand in one
pass, so no text can make it slow. Names that do not exist are found by `check` before anything runs.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final

from reconciler.clock import from_us, iso
from reconciler.errors import ReconcilerError
from reconciler.model.definition import Json

NAMES: Final = ("slot", "run.id", "run.attempt", "run.fence", "definition.name")
"""What a payload may name beside its parameters."""
FILTERS: Final = ("date", "utc")
DIRECTIVES: Final = "YymdHMSjGVuz%"
"""The letters `date` takes after a percent sign: the same on every platform and in every locale."""

_PARAMETER: Final = "parameters."
_MAX_FILLED: Final = 256 * 1024
_MAX_EXPRESSION: Final = 256
_MAX_HOLES: Final = 64
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


class PlaceholderError(ReconcilerError):
    """A placeholder names nothing or cannot be read; `offset` and `length` point into its text."""

    def __init__(self, rule: str, what: str, mend: str, *, offset: int, length: int) -> None:
        super().__init__(f"{what}. {mend}" + ("" if mend.endswith("?") else "."))
        self.rule = rule
        self.what = what
        self.mend = mend
        self.offset = offset
        self.length = max(1, length)


@dataclass(frozen=True, slots=True)
class Context:
    """What placeholders are filled with. `zone` is the trigger's; a run without one has UTC."""

    slot_us: int
    zone: tzinfo
    run_id: int | str
    attempt: int
    fence: int
    definition: str
    parameters: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class _Filter:
    name: str
    argument: str | None


@dataclass(frozen=True, slots=True)
class _Hole:
    name: str
    filters: tuple[_Filter, ...]
    offset: int
    length: int


def names_in(text: str) -> list[str]:
    """List the dotted names a text uses, in order, whether they exist or not."""
    return [piece.name for piece in _pieces(text) if isinstance(piece, _Hole)]


def check(text: str, parameters: Collection[str]) -> list[PlaceholderError]:
    """Find what is wrong with a text's placeholders, given the names of the parameters that exist."""
    known = (*NAMES, *(_PARAMETER + name for name in parameters))
    return [error for piece in _pieces(text) if (error := _fault(piece, known)) is not None]


def parameter_alone(text: str) -> str | None:
    """Name the parameter when the text is exactly one placeholder of it: then its JSON type is kept."""
    pieces = _pieces(text)
    hole = pieces[0] if len(pieces) == 1 else None
    if isinstance(hole, _Hole) and not hole.filters and hole.name.startswith(_PARAMETER):
        return hole.name.removeprefix(_PARAMETER)
    return None


def fill(value: Json, context: Context, *, as_text: bool = False) -> Json:
    """Fill every placeholder in a JSON value, through lists and maps (not their keys). Raises PlaceholderError.

    A text that is nothing but one parameter becomes its value, type and all; with `as_text` it stays a text, as the
    arguments and variables of a program must.
    """
    match value:
        case str():
            return _fill_text(value, context, as_text=as_text)
        case list() | tuple():
            return [fill(item, context, as_text=as_text) for item in value]
        case Mapping():
            return {key: fill(item, context, as_text=as_text) for key, item in value.items()}
        case _:
            return value


def _fill_text(text: str, context: Context, *, as_text: bool) -> Json:
    for error in check(text, context.parameters):
        raise error
    if not as_text and (alone := parameter_alone(text)):
        return context.parameters[alone]
    filled = "".join(_printed(piece, context) if isinstance(piece, _Hole) else str(piece) for piece in _pieces(text))
    if len(filled) > _MAX_FILLED:
        what = f"a text grew to {len(filled)} characters when its placeholders were filled"
        raise PlaceholderError("placeholder.size", what, f"Keep it under {_MAX_FILLED}", offset=0, length=len(text))
    return filled


def _printed(hole: _Hole, context: Context) -> str:
    match hole.name:
        case "slot":
            return _printed_slot(hole, context)
        case "run.id":
            return str(context.run_id)
        case "run.attempt":
            return str(context.attempt)
        case "run.fence":
            return str(context.fence)
        case "definition.name":
            return context.definition
        case parameter:
            value = context.parameters[parameter.removeprefix(_PARAMETER)]
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _printed_slot(hole: _Hole, context: Context) -> str:
    in_utc = any(applied.name == "utc" for applied in hole.filters)
    instant = from_us(context.slot_us).astimezone(UTC if in_utc else context.zone)
    for applied in hole.filters:
        if applied.argument is not None:
            return _dated(instant, applied.argument)
    return iso(context.slot_us) if in_utc else instant.isoformat()


def _dated(instant: datetime, text: str) -> str:
    characters = iter(text)
    return "".join(
        instant.strftime("%" + next(characters)) if character == "%" else character for character in characters
    )


def _fault(piece: str | _Hole | PlaceholderError, known: Collection[str]) -> PlaceholderError | None:
    """Say what is wrong with one piece of a text."""
    if isinstance(piece, str | PlaceholderError):
        return piece if isinstance(piece, PlaceholderError) else None
    if piece.name not in known:
        near = difflib.get_close_matches(piece.name, known, n=1)
        mend = f"Did you mean {near[0]}?" if near else f"Known here: {', '.join(known)}"
        return _error(piece.offset, piece.length, f'placeholder "{piece.name}" names nothing', mend)
    fault = _filter_fault(piece)
    return None if fault is None else _error(piece.offset, piece.length, *fault)


def _filter_fault(hole: _Hole) -> tuple[str, str] | None:
    for at, applied in enumerate(hole.filters):
        if applied.name not in FILTERS:
            return f'unknown filter "{applied.name}"', f"Known filters: {', '.join(FILTERS)}"
        if hole.name != "slot":
            return f'filter "{applied.name}" works on slot only, not on {hole.name}', "Take the filter out"
        if (applied.name == "date") != (applied.argument is not None):
            return f'filter "{applied.name}" is written wrongly', 'Write slot | utc, or slot | date("%Y-%m-%d")'
        if applied.name == "date" and at < len(hole.filters) - 1:
            return "date must be the last filter", 'Write slot | utc | date("%Y-%m-%d")'
        if wrong := _wrong_directive(applied.argument or ""):
            allowed = " ".join(f"%{letter}" for letter in DIRECTIVES)
            return f'date does not know "{wrong}"', f"Use {allowed}"
    return None


def _wrong_directive(text: str) -> str | None:
    characters = iter(text)
    for character in characters:
        if character == "%":
            letter = next(characters, "")
            if not letter or letter not in DIRECTIVES:
                return f"%{letter}"
    return None


@lru_cache(maxsize=1024)
def _pieces(text: str) -> tuple[str | _Hole | PlaceholderError, ...]:
    """Split a text into literals, holes and faults."""
    pieces: list[str | _Hole | PlaceholderError] = []
    at = 0
    while (opened := text.find("{{", at)) >= 0:
        if opened > at:
            pieces.append(text[at:opened])
        closed = text.find("}}", opened)
        fault = None
        if closed < 0:
            fault = ("a placeholder is not closed", 'Write "}}" after it')
        elif len(pieces) > 2 * _MAX_HOLES:
            fault = (f"a text has more than {_MAX_HOLES} placeholders", "Split it")
        if fault:
            return (*pieces, _error(opened, len(text) - opened, *fault))
        at = closed + 2
        pieces.append(_hole(text[opened + 2 : closed], opened, at - opened))
    if at < len(text):
        pieces.append(text[at:])
    return tuple(pieces)


def _hole(expression: str, offset: int, length: int) -> _Hole | PlaceholderError:
    """Read `name | filter | filter("argument")`."""
    if len(expression) > _MAX_EXPRESSION:
        return _error(offset, length, f"a placeholder is longer than {_MAX_EXPRESSION} characters", "Shorten it")
    name, *filters = (part.strip(" \t") for part in expression.split("|"))
    applied = [_filter(part) for part in filters]
    if not name or not _NAME_CHARACTERS.issuperset(name):
        mend = 'Write a name, such as {{ slot | date("%Y-%m-%d") }} or {{ parameters.region }}'
        return _error(offset, length, f'"{name}" is no name of a placeholder', mend)
    if any(part is None for part in applied):
        return _error(offset, length, "a filter is written wrongly", 'Write slot | utc, or slot | date("%Y-%m-%d")')
    return _Hole(name, tuple(part for part in applied if part is not None), offset, length)


def _filter(text: str) -> _Filter | None:
    name, opened, rest = text.partition("(")
    name = name.strip(" \t")
    if not name or not _NAME_CHARACTERS.issuperset(name):
        return None
    if not opened:
        return _Filter(name, None)
    argument = rest.removesuffix(")").strip(" \t")
    quoted = len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "\"'"
    if not rest.endswith(")") or not quoted or argument[0] in argument[1:-1]:
        return None
    return _Filter(name, argument[1:-1])


def _error(offset: int, length: int, what: str, mend: str) -> PlaceholderError:
    return PlaceholderError("placeholder.unknown", what, mend, offset=offset, length=length)
