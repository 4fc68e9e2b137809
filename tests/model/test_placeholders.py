from datetime import UTC, timedelta, timezone
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.definition import Json
from reconciler.model.placeholders import Context, PlaceholderError, check, fill, names_in, parameter_alone

CONTEXT = Context(
    slot_us=1_767_225_600_000_000,  # 2026-01-01T00:00:00Z
    zone=timezone(timedelta(hours=1)),
    run_id=42,
    attempt=2,
    fence=7,
    definition="daily-sales-report",
    parameters={"region": "eu", "rows": 10, "tags": ["a", 1], "nothing": None},
)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no placeholder } } {", "no placeholder } } {"),
        ("{{ slot }}", "2026-01-01T01:00:00+01:00"),
        ("{{slot|utc}}", "2026-01-01T00:00:00Z"),
        ('{{ slot | date("%Y-%m-%d %H:%M") }}', "2026-01-01 01:00"),
        ("{{ slot | utc | date('%H%%') }}", "00%"),
        ('sales-{{ slot | date("%j") }}-{{ parameters.region }}.csv', "sales-001-eu.csv"),
        ("{{ run.id }}/{{ run.attempt }}/{{ run.fence }}", "42/2/7"),
        ("{{ definition.name }}", "daily-sales-report"),
        ("rows={{ parameters.rows }} {{ parameters.nothing }}", "rows=10 null"),
    ],
)
def test_texts_are_filled(text: str, filled: str) -> None:
    assert fill(text, CONTEXT) == filled


@pytest.mark.parametrize(("name", "value"), [("rows", 10), ("tags", ["a", 1]), ("nothing", None), ("region", "eu")])
def test_a_text_that_is_one_parameter_keeps_its_type(name: str, value: Json) -> None:
    assert fill(f"{{{{ parameters.{name} }}}}", CONTEXT) == value


def test_lists_and_maps_are_filled_through_and_keys_are_not() -> None:
    payload = {"argv": ["echo", "{{ run.id }}", 5, None], "{{ slot }}": {"deep": ["{{ parameters.region }}"]}}

    assert fill(payload, CONTEXT) == {"argv": ["echo", "42", 5, None], "{{ slot }}": {"deep": ["eu"]}}


def test_what_a_parameter_holds_is_never_read_as_a_placeholder() -> None:
    context = Context(0, CONTEXT.zone, 1, 1, 1, "x", {"a": "{{ run.id }}"})

    assert fill("<{{ parameters.a }}>", context) == "<{{ run.id }}>"


@pytest.mark.parametrize(
    ("text", "offset", "length", "said"),
    [
        ("ab {{ slto }} c", 3, 10, "Did you mean slot?"),
        ("{{ parameters.regoin }}", 0, 23, "Did you mean parameters.region?"),
        ("{{ slot", 0, 7, "not closed"),
        ("{{ slot | date }}", 0, 17, "written wrongly"),
        ('{{ slot | date("%Y" }}', 0, 22, "written wrongly"),
        ('{{ slot | date("%A") }}', 0, 23, 'does not know "%A"'),
        ('{{ slot | date("%") }}', 0, 22, 'does not know "%"'),
        ("{{ slot | upper }}", 0, 18, 'unknown filter "upper"'),
        ("{{ parameters.rows | utc }}", 0, 27, "works on slot only"),
        ('{{ slot | date("%Y") | utc }}', 0, 29, "must be the last"),
        ('{{ slot | utc("x") }}', 0, 21, "written wrongly"),
        ("{{ a b }}", 0, 9, "no name"),
        ("{{ {{ slot }} }}", 0, 13, "no name"),
        ("{{" + "a" * 300 + "}}", 0, 304, "longer than"),
    ],
)
def test_faults_are_found_at_their_characters(text: str, offset: int, length: int, said: str) -> None:
    (error,) = check(text, ["region", "rows"])

    assert (error.offset, error.length) == (offset, length)
    assert said in str(error)
    with pytest.raises(PlaceholderError):
        fill(text, CONTEXT)


def test_a_text_may_not_hold_hundreds_of_placeholders() -> None:
    assert check("{{ slot }}" * 64, []) == []
    assert "more than 64" in str(check("{{ slot }}" * 200, [])[0])


def test_every_fault_of_a_text_is_found() -> None:
    assert [error.offset for error in check("{{ a }} {{ slot }} {{ b }}", [])] == [0, 19]


def test_names_are_listed_whether_they_exist_or_not() -> None:
    assert names_in("{{ slot | utc }} {{ parameters.x }} {{ ghost }}") == ["slot", "parameters.x", "ghost"]


@pytest.mark.parametrize(
    ("text", "name"),
    [("{{ parameters.a }}", "a"), (" {{ parameters.a }}", None), ("{{ slot }}", None), ("{{ parameters.a", None)],
)
def test_a_parameter_alone_is_recognised(text: str, name: str | None) -> None:
    assert parameter_alone(text) == name


def test_a_text_that_grows_too_large_is_refused() -> None:
    context = Context(0, CONTEXT.zone, 1, 1, 1, "x", {"a": "y" * 65_536})

    with pytest.raises(PlaceholderError, match="grew to"):
        fill("{{ parameters.a }}-" * 5, context)


@pytest.mark.parametrize("text", ["{{" * 32_768, "{{ a }}" * 9_000, "}" * 65_536, "{{ slot |" + "|" * 65_000 + "}}"])
def test_long_near_misses_take_less_than_50_ms(text: str) -> None:
    started = process_time()

    check(text, ["region"])

    assert process_time() - started < 0.05


@given(st.text(alphabet="{}| slot.parametersid\"'()%Y", max_size=60))
@settings(max_examples=500, deadline=None)
def test_what_check_accepts_fill_fills(text: str) -> None:
    if check(text, CONTEXT.parameters):
        with pytest.raises(PlaceholderError):
            fill(text, CONTEXT)
    else:
        fill(text, CONTEXT)


def test_what_goes_to_a_program_stays_a_text() -> None:
    context = Context(0, UTC, 1, 1, 1, "report", {"rows": 5, "region": "eu", "deep": {"b": [1], "a": None}})

    filled = fill(["{{ parameters.rows }}", "{{ parameters.region }}", "{{ parameters.deep }}"], context, as_text=True)

    assert filled == ["5", "eu", '{"a": null, "b": [1]}']
