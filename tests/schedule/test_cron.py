from datetime import date, timedelta
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.schedule.cron import Cron, CronError, parse
from reconciler.schedule.crondates import Values
from tests.cases import vectors
from tests.schedule.oracle import Expression
from tests.schedule.strategies import expressions

EPOCH = date(1970, 1, 1)
SECONDS_A_DAY = 86_400


def refused(expression: str) -> CronError:
    with pytest.raises(CronError) as caught:
        parse(expression)
    return caught.value


@pytest.mark.case("CRON-04")
def test_a_step_on_a_single_number_is_refused_with_the_range_it_may_mean() -> None:
    error = refused("5/15 * * * *")

    assert (error.rule, error.field, error.mend) == ("cron.step", "minute", "Write 5-59/15")
    assert (error.offset, error.length) == (0, len("5/15"))


@pytest.mark.case("CRON-07")
@pytest.mark.parametrize(
    ("number", "name"), [("1", "mon"), ("0", "sun"), ("7", "SUN"), ("6", "Sat"), ("1-5", "MON-FRI")]
)
def test_weekdays_by_number_equal_weekdays_by_name(number: str, name: str) -> None:
    assert parse(f"0 10 * * {number}").dates == parse(f"0 10 * * {name}").dates


@pytest.mark.case("CRON-10")
@pytest.mark.parametrize("expression", [vector["expr"] for vector in vectors("CRON-10")])
def test_dates_that_never_come_are_refused_at_once(expression: str) -> None:
    started = process_time()

    error = refused(expression)

    assert error.rule == "cron.never-fires"
    assert "never fires" in error.what
    assert process_time() - started < 1


@pytest.mark.case("CRON-14")
@pytest.mark.parametrize("expression", [vector["expr"] for vector in vectors("CRON-14")])
def test_a_step_of_zero_is_our_own_error(expression: str) -> None:
    assert refused(expression).rule == "cron.step"


@pytest.mark.parametrize(
    ("expression", "mend"),
    [
        ("0 22-2 * * *", "Write 22-23,0-2"),
        ("0 22-0 * * *", "Write 22-23,0"),
        ("0 22-2/2 * * *", "Write 22,0,2"),
        ("50-10 * * * *", "Write 50-59,0-10"),
        ("0 0 28-3 * *", "Write 28-31,1-3"),
        ("0 0 * 11-2 *", "Write 11-12,1-2"),
        ("0 0 * 11-FEB *", "Write 11-12,1-2"),
        ("0 0 * * 5-0", "Write 5-7"),
        ("0 0 * * 5-1", "Write 5-6,0-1"),
        ("0 0 * * 7-2", "Write 0-2"),
    ],
)
def test_a_backward_range_is_refused_and_written_out(expression: str, mend: str) -> None:
    error = refused(expression)

    assert (error.rule, error.mend) == ("cron.range", mend)
    parse(expression.replace(expression.split()[_position(error)], mend.removeprefix("Write ")))


def _position(error: CronError) -> int:
    return ("minute", "hour", "day of month", "month", "day of week").index(error.field)


@pytest.mark.parametrize(
    ("expression", "field", "text"),
    [
        ("61 * * * *", "minute", "61"),
        ("* 24 * * *", "hour", "24"),
        ("* * 0 * *", "day of month", "0"),
        ("* * 32 * *", "day of month", "32"),
        ("* * * 13 *", "month", "13"),
        ("* * * * 8", "day of week", "8"),
        ("* * * 1,FEBR *", "month", "FEBR"),
        ("* * * * MON,XXX-FRI", "day of week", "XXX"),
        ("1,2,x * * * *", "minute", "x"),
        ("\t* *  ٣ * *", "day of month", "٣"),
        ("*5 * * * *", "minute", "*5"),
        ("MON * * * *", "minute", "MON"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(expression: str, field: str, text: str) -> None:
    error = refused(expression)

    assert (error.rule, error.field) == ("cron.value", field)
    assert expression[error.offset : error.offset + error.length] == text
    assert text in error.what


@pytest.mark.parametrize(
    "expression", [",1 * * * *", "1,,2 * * * *", "1, * * * *", "5- * * * *", "-5 * * * *", "1-2-3 * * * *"]
)
def test_half_written_lists_and_ranges_are_refused(expression: str) -> None:
    assert refused(expression).rule == "cron.value"


@pytest.mark.parametrize(
    "expression",
    [
        "*/90 * * * *",
        "*/60 * * * *",
        "* */24 * * *",
        "5-10/6 * * * *",
        "*/x * * * *",
        "*/ * * * *",
        "*/-1 * * * *",
        "*/1/2 * * * *",
    ],
)
def test_a_step_that_never_takes_a_second_step_is_refused(expression: str) -> None:
    assert refused(expression).rule == "cron.step"


@pytest.mark.parametrize(
    "expression",
    ["", "x", "* * * *", "@every", "* * * * * * *", "@noon", "@daily 5", "@reboot", "*\n* * * *", "* " * 600],
)
def test_anything_but_five_or_six_fields_or_a_macro_is_refused(expression: str) -> None:
    assert refused(expression).rule == "cron.fields"


@pytest.mark.case("DST-15")
@pytest.mark.parametrize("prefix", ["CRON_TZ", "TZ"])
def test_a_zone_in_front_of_the_expression_is_refused_with_the_field_to_use(prefix: str) -> None:
    error = refused(f"{prefix}=Etc/UTC */20 * * * *")

    assert "timeZone: Etc/UTC" in error.mend


@pytest.mark.case("CRON-01")
def test_a_range_that_covers_everything_is_no_star() -> None:
    assert not parse("0 0 1-31 * 4").dates.needs_both
    assert parse("0 0 */2 * 4").dates.needs_both
    assert parse("0 0 13 * */2").dates.needs_both


@pytest.mark.case("CRON-05")
@pytest.mark.parametrize(
    ("weekdays", "values"),
    [
        ("SAT-SUN", {6, 0}),
        ("MON-SUN", {0, 1, 2, 3, 4, 5, 6}),
        ("2-7", {2, 3, 4, 5, 6, 0}),
        ("5-SUN", {5, 6, 0}),
        ("SUN-TUE", {0, 1, 2}),
        ("FRI-MON", {5, 6, 0, 1}),
        ("FRI-MON/2", {5, 0}),
        ("SUN-SUN", {0}),
        ("0-7", {0, 1, 2, 3, 4, 5, 6}),
    ],
)
def test_sunday_as_an_upper_bound_is_seven(weekdays: str, values: set[int]) -> None:
    assert parse(f"0 8 * * {weekdays}").dates.weekdays == Values(sum(1 << value for value in values))


def test_months_wrap_around_by_name() -> None:
    assert parse("0 0 1 NOV-FEB *").dates.months == sum(1 << month for month in (11, 12, 1, 2))


def _compiled(expression: str) -> Cron | CronError:
    try:
        return parse(expression)
    except CronError as error:
        return error


def _first_local_second(expression: Expression, start: date, second: int) -> int | None:
    times = sorted(hour * 3600 + at * 60 for hour in expression.hour.values for at in expression.minute.values)
    for ahead in range(41 * 366):
        day = start + timedelta(days=ahead)
        if expression.on_day(day) and (left := [at for at in times if ahead or at >= second]):
            return (day - EPOCH).days * SECONDS_A_DAY + left[0]
    return None


@given(expressions(), st.dates(date(1970, 1, 1), date(2090, 1, 1)), st.integers(0, SECONDS_A_DAY - 1))
@settings(max_examples=300, deadline=None)
def test_the_first_match_is_what_walking_every_day_finds(expression: Expression, start: date, second: int) -> None:
    """Rare dates included: 29 February on one weekday can be 40 years away."""
    expected = _first_local_second(expression, start, second)

    match _compiled(expression.text):
        case CronError() as error:
            assert (error.rule, expected) == ("cron.never-fires", None)
        case Cron() as cron:
            assert cron.at_or_after((start - EPOCH).days * SECONDS_A_DAY + second) == expected
            assert expected is not None
            assert cron.matches(expected)


def test_a_schedule_ends_with_the_calendar() -> None:
    assert parse("0 0 1 1 *").at_or_after((date(9998, 6, 1) - EPOCH).days * SECONDS_A_DAY) is None
    assert parse("0 0 1 1 *").at_or_before((date(1, 1, 1) - EPOCH).days * SECONDS_A_DAY) is not None
    assert parse("0 0 2 1 *").at_or_before((date(1, 1, 1) - EPOCH).days * SECONDS_A_DAY) is None


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_compiled_or_refused_with_a_place_inside_it(text: str) -> None:
    match _compiled(text):
        case CronError() as error:
            assert error.rule.startswith("cron.")
            assert 0 <= error.offset <= len(text)
        case Cron() as cron:
            assert cron.at_or_after(0) is not None


@pytest.mark.parametrize(
    "text", ["*" * 65_536, "1," * 32_768, "* * * * " + "MON-" * 16_384, "9" * 65_536, " " * 65_536]
)
def test_long_near_misses_are_refused_within_50_ms(text: str) -> None:
    started = process_time()

    refused(text)

    assert process_time() - started < 0.05
