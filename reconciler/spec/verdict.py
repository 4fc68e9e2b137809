"""Is a value valid? The same verdict as the validator of `schemas`, thirty times as fast, without saying why.

A schema becomes functions once. Nearly every document is valid, so the validator, which says what is wrong, is asked
only about those that are not. What this does not know it does not judge: then there is no verdict (None).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from reconciler.model.definition import Json

Check = Callable[[Any], bool]
Verdict = Callable[[Json], bool | None]


class _UnknownError(Exception):
    """A keyword or a comparison that is not known here."""


def compile_schema(root: Mapping[str, Json]) -> Verdict:
    """Turn a schema into a function that tells whether a value is valid; None where it cannot tell."""
    try:
        check = _Compiler(root).check(root)
    except _UnknownError:
        return lambda _value: None

    def verdict(value: Json) -> bool | None:
        try:
            return check(value)
        except _UnknownError:
            return None

    return verdict


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, Check]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}
_SAYS_NOTHING: Final = frozenset(
    {
        "$schema",
        "$id",
        "title",
        "description",
        "default",
        "examples",
        "definitions",
        "errorMessage",
        "patternErrorMessage",
    }
)
_DEFINITIONS: Final = "#/definitions/"
_OF_OBJECTS: Final = frozenset({"properties", "additionalProperties", "required", "propertyNames"})
_BOUNDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
}
_SIZES: Final[Mapping[str, tuple[Any, Callable[[int, int], bool]]]] = {
    "minLength": (str, lambda size, limit: size >= limit),
    "maxLength": (str, lambda size, limit: size <= limit),
    "minItems": (list, lambda size, limit: size >= limit),
    "maxItems": (list, lambda size, limit: size <= limit),
    "minProperties": (dict, lambda size, limit: size >= limit),
    "maxProperties": (dict, lambda size, limit: size <= limit),
}


class _Compiler:
    """Compiles one schema and what it refers to within itself."""

    def __init__(self, root: Mapping[str, Json]) -> None:
        self._root = root
        self._named: dict[str, Check] = {}
        self._keywords: Mapping[str, Callable[[Any], Check]] = {
            "type": _type,
            "enum": lambda limit: lambda value: any(_same(value, each) for each in limit),
            "const": lambda limit: lambda value: _same(value, limit),
            "pattern": _pattern,
            "items": self._items,
            "uniqueItems": lambda limit: lambda value: not limit or not isinstance(value, list) or _unique(value),
            "oneOf": lambda limit: _some(self._each(limit), exactly_one=True),
            "anyOf": lambda limit: _some(self._each(limit), exactly_one=False),
            "not": self._not,
            "dependencies": self._dependencies,
        }

    def check(self, schema: Json) -> Check:
        """Compile a schema. Raises _UnknownError."""
        if not isinstance(schema, Mapping):
            return lambda _value: bool(schema)
        if "$ref" in schema:  # draft-07 looks at nothing beside it
            return self._reference(schema["$ref"])
        apart = _SAYS_NOTHING | _OF_OBJECTS
        checks = [self._keyword(name, limit) for name, limit in schema.items() if name not in apart]
        if _OF_OBJECTS & schema.keys():
            checks.append(self._object(schema))
        return checks[0] if len(checks) == 1 else _all(checks)

    def _reference(self, name: str) -> Check:
        if not name.startswith(_DEFINITIONS):
            raise _UnknownError(name)
        if name not in self._named:
            self._named[name] = lambda value: self._named[name](value)  # noqa: PLW0108 - a schema may refer to itself
            self._named[name] = self.check(self._root["definitions"][name.removeprefix(_DEFINITIONS)])
        return self._named[name]

    def _keyword(self, name: str, limit: Json) -> Check:
        if name in self._keywords:
            return self._keywords[name](limit)
        if name in _BOUNDS:
            holds = _BOUNDS[name]
            return lambda value: not _is_number(value) or holds(value, limit)
        if name in _SIZES:
            kind, fits = _SIZES[name]
            return lambda value: not isinstance(value, kind) or fits(len(value), limit)
        raise _UnknownError(name)

    def _each(self, schemas: Sequence[Json]) -> list[Check]:
        return [self.check(each) for each in schemas]

    def _items(self, limit: Json) -> Check:
        if isinstance(limit, list):
            raise _UnknownError("items")
        each = self.check(limit)
        return lambda value: not isinstance(value, list) or all(map(each, value))

    def _not(self, limit: Json) -> Check:
        inner = self.check(limit)
        return lambda value: not inner(value)

    def _object(self, schema: Mapping[str, Json]) -> Check:
        fields = {name: self.check(each) for name, each in schema.get("properties", {}).items()}
        required = tuple(schema.get("required", ()))
        others = self.check(schema.get("additionalProperties", True))
        names = self.check(schema.get("propertyNames", True))

        def check(value: Any) -> bool:
            if not isinstance(value, dict):
                return True
            if any(name not in value for name in required) or not all(map(names, value)):
                return False
            return all(fields.get(name, others)(each) for name, each in value.items())

        return check

    def _dependencies(self, limit: Mapping[str, Json]) -> Check:
        needs = {
            name: self.check({"required": each} if isinstance(each, list) else each) for name, each in limit.items()
        }
        return lambda value: (
            not isinstance(value, dict) or all(check(value) for name, check in needs.items() if name in value)
        )


def _type(limit: Json) -> Check:
    names = [limit] if isinstance(limit, str) else limit
    if unknown := [name for name in names if name not in _TYPES]:
        raise _UnknownError(unknown[0])
    kinds = [_TYPES[name] for name in names]
    return kinds[0] if len(kinds) == 1 else lambda value: any(kind(value) for kind in kinds)


def _pattern(limit: str) -> Check:
    match = re.compile(limit.removeprefix("^").removesuffix("$")).fullmatch
    return lambda value: not isinstance(value, str) or match(value) is not None


def _all(checks: Sequence[Check]) -> Check:
    def check(value: Any) -> bool:
        for each in checks:  # noqa: SIM110 - a generator costs more than the checks
            if not each(value):
                return False
        return True

    return check


def _some(checks: Sequence[Check], *, exactly_one: bool) -> Check:
    if exactly_one:
        return lambda value: sum(1 for check in checks if check(value)) == 1
    return lambda value: any(check(value) for check in checks)


def _same(one: Any, other: Any) -> bool:
    """JSON's equality: true is not 1. Containers are left to the validator."""
    if isinstance(one, dict | list) and isinstance(other, dict | list):
        raise _UnknownError("equality")
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _unique(items: Sequence[Any]) -> bool:
    if not all(isinstance(item, str) for item in items):
        raise _UnknownError("equality")
    return len(set(items)) == len(items)
