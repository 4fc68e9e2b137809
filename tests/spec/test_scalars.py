import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.definition import Json
from reconciler.spec.scalars import NumberRefusedError, resolve


@pytest.mark.case("YML-03")
@pytest.mark.parametrize(
    "text",
    [
        *("yes", "no", "on", "off", "y", "n", "NO", "True", "FALSE", "Null", "NULL"),
        *("22:00", "1:30:00", "017", "0o17", "0x1F", "0b1", "1_000", "2026-01-01", "1.2.3", "1e", "e5", "1e+-5"),
        *(".", "-", "+", "-.", "..5", "1.5e", "--1", "+-1", "٣", "1,5", "=", "<<", "a"),
    ],
)
def test_what_surprises_elsewhere_is_a_text_as_written(text: str) -> None:
    assert resolve(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("", None), ("~", None), ("null", None), ("true", True), ("false", False)],
        *[("0", 0), ("-0", 0), ("+7", 7), ("-12", -12), ("9223372036854775807", 2**63 - 1)],
        *[("1.5", 1.5), ("-.5", -0.5), ("5.", 5.0), ("1e3", 1000.0), ("1.5E-3", 0.0015), ("0.0", 0.0)],
    ],
)
def test_core_values_are_read(text: str, value: Json) -> None:
    resolved = resolve(text)

    assert resolved == value
    assert type(resolved) is type(value)


@pytest.mark.case("YML-07")
@pytest.mark.parametrize(
    "text", [".nan", ".NaN", ".inf", "-.INF", "+.Inf", "1e999", "-1e999", "9223372036854775808", "1" * 65_000]
)
def test_numbers_that_nothing_keeps_are_refused(text: str) -> None:
    with pytest.raises(NumberRefusedError):
        resolve(text)


@given(st.text(max_size=30))
@settings(max_examples=500, deadline=None)
def test_a_scalar_is_its_text_or_a_json_value(text: str) -> None:
    try:
        value = resolve(text)
    except NumberRefusedError:
        return

    assert value is None or isinstance(value, bool | int | float) or value == text


@given(st.integers(-(2**63) + 1, 2**63 - 1))
@settings(max_examples=200, deadline=None)
def test_whole_numbers_are_themselves(number: int) -> None:
    assert resolve(str(number)) == number
