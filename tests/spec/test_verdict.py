"""The quick verdict is that of the validator, whatever stands in a document."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.definition import Json
from reconciler.spec.schemas import _STRICT, schema
from reconciler.spec.verdict import compile_schema
from tests.spec.test_robust import anything, damaged
from tests.spec.test_schemas import ALL


@pytest.mark.parametrize("name", ALL)
def test_each_published_schema_is_known_whole(name: str) -> None:
    assert compile_schema(schema(name))({}) is not None


@given(damaged())
@settings(max_examples=300, deadline=None)
def test_the_verdict_on_damaged_jobs_is_that_of_the_validator(document: Json) -> None:
    root = schema("job")

    assert compile_schema(root)(document) in {None, _STRICT(root).is_valid(document)}


@given(anything)
@settings(max_examples=300, deadline=None)
def test_the_verdict_on_anything_is_that_of_the_validator(value: Json) -> None:
    for name in ALL:
        assert compile_schema(schema(name))(value) in {None, _STRICT(schema(name)).is_valid(value)}


KEYWORDS: dict[str, st.SearchStrategy[Json]] = {
    "type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", ["string", "null"]]),
    "enum": st.lists(st.sampled_from([1, 1.0, True, "a", None, [1], {}]), min_size=1),
    "const": st.sampled_from([0, False, 0.0, "a", None, [], [True]]),
    "minimum": st.integers(-2, 2),
    "exclusiveMaximum": st.sampled_from([0, 1, 1.5]),
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    "maxLength": st.integers(0, 2),
    "minItems": st.integers(0, 2),
    "uniqueItems": st.booleans(),
    "required": st.lists(st.sampled_from(["a", "b"]), unique=True),
    "additionalProperties": st.booleans(),
    "propertyNames": st.just({"maxLength": 1}),
    "dependencies": st.sampled_from([{"a": ["b"]}, {"a": {"maxProperties": 1}}]),
    "pattern": st.sampled_from(["^a$", "^[ab]+$"]),
}
some_schemas: Any = st.recursive(
    st.fixed_dictionaries({}, optional=KEYWORDS),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **KEYWORDS,
            "items": inner,
            "not": inner,
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
        },
    ),
    max_leaves=5,
)
small = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2, 1.0, 1.5, "", "a", "ab", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "cc"]), inner, max_size=3),
    max_leaves=5,
)


@given(some_schemas, small)
@settings(max_examples=1000, deadline=None)
def test_the_verdict_of_any_schema_is_that_of_the_validator(definition: dict[str, Any], value: Json) -> None:
    assert compile_schema(definition)(value) in {None, _STRICT(definition).is_valid(value)}


def test_a_schema_that_refers_to_itself_is_known() -> None:
    tree = {
        "$ref": "#/definitions/node",
        "definitions": {"node": {"type": "array", "items": {"$ref": "#/definitions/node"}}},
    }

    assert compile_schema(tree)([[], [[]]]) is True
    assert compile_schema(tree)([[], [1]]) is False
