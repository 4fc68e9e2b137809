"""The published JSON Schemas, and the one validator that reads them.

`schemas/` at the top of the repository is the only source; the wheel carries it. The validator is draft-07 with two
differences, both stricter: 5.0 is no integer, and a pattern must match the whole text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft7Validator, ValidationError
from jsonschema.validators import extend

from reconciler.model.definition import Json
from reconciler.spec.verdict import Verdict, compile_schema

JOB: Final = "job"
CONFIG_FILE: Final = "reconciler"
"""The schema of reconciler.yaml."""
_SUFFIX: Final = ".schema.json"


@cache
def schema(name: str) -> Mapping[str, Json]:
    """Give a published schema: `job`, or `handlers/command`."""
    *folders, last = name.split("/")
    loaded: Mapping[str, Json] = json.loads(_folder().joinpath(*folders, last + _SUFFIX).read_text(encoding="utf-8"))
    return loaded


@cache
def handler_types() -> tuple[str, ...]:
    """List the handler types that have a payload schema."""
    names = (entry.name for entry in _folder().joinpath("handlers").iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing a schema refuses: which keyword, what it asks for, the value, and where it stands."""

    keyword: str
    limit: Json
    value: Json
    schema: Mapping[str, Json]
    path: tuple[str | int, ...]
    is_name: bool
    """Whether `value` is the name of a field rather than what the path leads to."""


def faults(name: str, value: Json) -> Iterator[Fault]:
    """List what a published schema refuses in a value."""
    return iter(()) if _verdict(name)(value) else _faults(_validator(name), value)


def faults_by(definition: Mapping[str, Json], value: Json) -> Iterator[Fault]:
    """List what a schema of a definition's own, such as a parameter's, refuses in a value."""
    return iter(()) if compile_schema(definition)(value) else _faults(_STRICT(definition), value)


def _faults(validator: Any, value: Json) -> Iterator[Fault]:
    for error in validator.iter_errors(value):
        yield Fault(
            keyword=error.validator,
            limit=error.validator_value,
            value=error.instance,
            schema=error.schema if isinstance(error.schema, Mapping) else {},
            path=tuple(error.absolute_path),
            is_name="propertyNames" in error.absolute_schema_path,
        )


@cache
def _verdict(name: str) -> Verdict:
    return compile_schema(schema(name))


@cache
def _validator(name: str) -> Any:
    return _STRICT(schema(name))


@cache
def _folder() -> Traversable:
    packaged = resources.files("reconciler").joinpath("_schemas")
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "schemas"


def _is_integer(_checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    """Patterns are ours (security.md, rule 13); the standard's search would let a trailing newline pass."""
    if isinstance(value, str) and re.fullmatch(pattern.removeprefix("^").removesuffix("$"), value) is None:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_STRICT: Final[Any] = extend(  # type: ignore[no-untyped-call]
    Draft7Validator,
    validators={"pattern": _pattern},
    type_checker=Draft7Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)
