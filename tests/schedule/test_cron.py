from dataclasses import replace
from datetime import date
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.policy import DayRule
from reconciler.schedule.cron import Cron, CronError, parse
from reconciler.schedule.crondates import Values
from tests.cases import vectors

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


@pytest.mark.parametrize(
    ("expression", "day_rule", "what"),
    [
        ("0 0 31W 2 *", DayRule.OR, 'no month of "2" has a day "31W"'),
        ("0 0 L-30 2,4 *", DayRule.OR, 'no month of "2,4" has a day "L-30"'),
        ("0 0 31 */2 WED#1", DayRule.AND, 'no day "31" in a month of "*/2" is ever a "WED#1"'),
        ("0 0 */30 2 MON#5", DayRule.OR, 'no day "*/30" in a month of "2" is ever a "MON#5"'),
        ("0 0 LW * SAT", DayRule.AND, 'no day "LW" in a month of "*" is ever a "SAT"'),
        ("0 0 1-21 * 5L", DayRule.AND, 'no day "1-21" in a month of "*" is ever a "5L"'),
    ],
)
def test_days_that_never_meet_are_refused(expression: str, day_rule: DayRule, what: str) -> None:
    with pytest.raises(CronError) as caught:
        parse(expression, day_rule=day_rule)

    assert caught.value.rule == "cron.never-fires"
    assert caught.value.what == f'"{expression}" never fires: {what}'
    assert expression[caught.value.offset :].startswith(expression.split()[2])


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 0 * 2 MON#5", date(2044, 2, 29)),
        ("0 0 29 2 */6", date(2032, 2, 29)),
        ("0 0 L-28 2 ?", date(2028, 2, 1)),
        ("0 0 */30 2 *", date(2027, 2, 1)),
    ],
)
def test_dates_that_come_once_in_many_years_are_found(expression: str, first: date) -> None:
    found = parse(expression).at_or_after((date(2026, 3, 1) - EPOCH).days * SECONDS_A_DAY)

    assert found == (first - EPOCH).days * SECONDS_A_DAY


@pytest.mark.parametrize(
    ("macro", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        (" @weekly ", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@ANNUALLY", "0 0 0 1 JAN ?"),
    ],
)
def test_a_macro_is_its_fields(macro: str, fields: str) -> None:
    assert replace(parse(macro), expression="") == replace(parse(fields), expression="")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("0 0 L-31 * *", "L-31"),
        ("0 0 L-0 * *", "L-0"),
        ("0 0 1,WL * *", "WL"),
        ("0 0 10-L * *", "10-L"),
        ("0 0 1-15W * *", "1-15W"),
        ("0 0 32W * *", "32"),
        ("0 0 L/2 * *", "L/2"),
        ("0 0 * * L", "L"),
        ("0 0 * * 1,5#6", "5#6"),
        ("0 0 * * 5#0", "5#0"),
        ("0 0 * * 5#", "5#"),
        ("0 0 * * #3", "#3"),
        ("0 0 * * 1-5#2", "1-5#2"),
        ("0 0 * * 9L", "9"),
        ("0 0 * * MOM#1", "MOM"),
        ("L 0 * * *", "L"),
        ("15W 0 * * *", "15W"),
        ("0 0 5#3 * *", "5#3"),
        ("? 0 * * *", "?"),
        ("0 0 1,? * *", "?"),
        ("0 0 ?/2 * *", "?/2"),
        ("H(30) 0 * * *", "H(30)"),
        ("H(0-70) 0 * * *", "70"),
        ("H-5 0 * * *", "H-5"),
        ("60 0 0 * * *", "60"),
    ],
)
def test_days_hashes_and_marks_in_the_wrong_place_are_named(expression: str, text: str) -> None:
    error = refused(expression)

    assert error.rule == "cron.value"
    assert expression[error.offset : error.offset + error.length] == text


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("H * * * *", {6}),
        ("h/15 * * * *", {6, 21, 36, 51}),
        ("H(30-39) * * * *", {36}),
        ("H(0-29)/10 * * * *", {6, 16, 26}),
        ("H,30 * * * *", {6, 30}),
    ],
)
def test_a_hashed_value_is_the_same_everywhere(expression: str, values: set[int]) -> None:
    """SHA-256 of field and name: these very values, on every machine and version."""
    assert parse(expression, seed="daily-sales-report").times & 2**60 - 1 == sum(1 << value for value in values)


@given(st.text(max_size=64))
def test_a_hashed_day_comes_in_every_month(seed: str) -> None:
    cron = parse("H H H * *", seed=seed)

    for month in range(1, 13):
        first = (date(2027, month, 1) - EPOCH).days * SECONDS_A_DAY
        found = cron.at_or_after(first)
        assert found is not None
        assert found < first + 28 * SECONDS_A_DAY
    assert cron.dates.days.mask.bit_count() == 1


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
