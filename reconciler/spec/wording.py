"""From a JSON Schema error to words a person can act on: a rule id, what is wrong, and how to mend it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from reconciler.model.definition import Json
from reconciler.spec.schemas import Fault
from reconciler.words import count

_SHOWN: Final = 60
_NAMES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
_ACTUAL: Final = {"boolean": "a truth value", "number": "a number with a fraction"}
_YES: Final = frozenset({"yes", "y", "on", "true"})
_NO: Final = frozenset({"no", "n", "off", "false"})


class Words(NamedTuple):
    """What a problem says."""

    rule: str
    what: str
    mend: str


def words_of(fault: Fault) -> Words:
    """Say what a fault is about. Unknown and missing fields are the caller's: they are about names, not values."""
    keyword, limit, value = fault.keyword, fault.limit, fault.value
    if message := fault.schema.get("patternErrorMessage" if keyword == "pattern" else "errorMessage"):
        what, _, mend = str(message).partition("; ")
        rule = "schema.pattern" if keyword == "pattern" else "schema.value"
        return Words(rule, f"{shown(value)} {what}", capitalised(mend))
    match keyword:
        case "type":
            words = _type_words(value, [limit] if isinstance(limit, str) else list(limit))
            form = str(fault.schema.get("patternErrorMessage", "")).partition("; ")[2]
            return words._replace(mend=capitalised(form)) if form.startswith("write") and value is not None else words
        case "enum":
            return Words("schema.enum", f"{shown(value)} is not allowed here", _choice(value, limit))
        case "const":
            return Words("schema.enum", f"{shown(value)} is not allowed here", f"Write {plain(limit)}")
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf":
            return _range_words(keyword, value, fault.schema)
        case _ if keyword in _SIZES:
            return _size_words(keyword, value, limit)
        case "uniqueItems":
            return Words("schema.value", f"{shown(value)} names something twice", "Name each once")
        case _:
            return Words("schema.value", f"{shown(value)} is not allowed here ({keyword})", "Change it")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Give the known name most like a wrong one."""
    by_folded = {each.casefold(): each for each in known}
    near = difflib.get_close_matches(name.casefold()[:_SHOWN], by_folded, n=1)
    return by_folded[near[0]] if near else None


def did_you_mean(name: str, known: Collection[str], *, otherwise: str) -> str:
    """Offer the nearest known name, or say something else."""
    near = nearest(name, known)
    return f'Did you mean "{near}"?' if near else otherwise


def shown(value: Json) -> str:
    """Print a value as JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def plain(value: Json) -> str:
    """Print a value as one would write it in YAML."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def capitalised(text: str) -> str:
    """Begin a sentence."""
    return text[:1].upper() + text[1:]


def one_of(names: Iterable[str]) -> str:
    """Print alternatives: `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _type_words(value: Json, wanted: list[str]) -> Words:
    expected = one_of(_NAMES[name] for name in wanted)
    if value is None:
        return Words("schema.type", f"nothing is given where {expected} belongs", "Write it, or take the line out")
    actual = _ACTUAL.get(_type_of(value)) or _NAMES[_type_of(value)]
    return Words("schema.type", f"{shown(value)} is {actual}, not {expected}", _type_mend(value, wanted))


def _type_mend(value: Json, wanted: list[str]) -> str:
    match wanted[0], value:
        case "string", bool() | int() | float():
            return f'Quote it: "{plain(value)}"'
        case "integer", str() if value.lstrip("+-").isdigit():
            return "Take the quotes away"
        case "integer", float() if value.is_integer():
            return f"Write {int(value)}"
        case "boolean", str() if value.casefold() in _YES | _NO:
            return f"Write {'true' if value.casefold() in _YES else 'false'}, without quotes"
        case "boolean", _:
            return "Write true or false, without quotes"
        case "array", _:
            return "Write a list: [a, b], or one line with a hyphen per item"
        case "object", _:
            return "Write a mapping: fields as `name: value`, indented below"
        case _:
            return f"Write {one_of(_NAMES[name] for name in wanted)}"


def _type_of(value: Json) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _choice(value: Json, allowed: list[Json]) -> str:
    names = [plain(each) for each in allowed]
    near = nearest(value, names) if isinstance(value, str) else None
    return f"Did you mean {near}?" if near else f"Write {one_of(names[:20])}"


def _range_words(keyword: str, value: Json, schema: Mapping[str, Json]) -> Words:
    limit = plain(schema[keyword])
    what = {
        "minimum": f"{plain(value)} is below {limit}",
        "maximum": f"{plain(value)} is above {limit}",
        "exclusiveMinimum": f"{plain(value)} is not above {limit}",
        "exclusiveMaximum": f"{plain(value)} is not below {limit}",
        "multipleOf": f"{plain(value)} is no multiple of {limit}",
    }[keyword]
    if "minimum" in schema and "maximum" in schema:
        return Words("schema.range", what, f"Write {plain(schema['minimum'])}-{plain(schema['maximum'])}")
    bound = {"minimum": "at least", "maximum": "at most", "multipleOf": "a multiple of"}
    words = bound.get(keyword, "more than" if keyword == "exclusiveMinimum" else "less than")
    return Words("schema.range", what, f"Write {words} {limit}")


_SIZES: Final = {
    "minLength": ("character", "at least"),
    "maxLength": ("character", "at most"),
    "minItems": ("item", "at least"),
    "maxItems": ("item", "at most"),
    "minProperties": ("field", "at least"),
    "maxProperties": ("field", "at most"),
}


def _size_words(keyword: str, value: Json, limit: int) -> Words:
    of, bound = _SIZES[keyword]
    return Words("schema.size", f"{shown(value)} has {count(len(value), of)}", f"Give {bound} {count(limit, of)}")
