from random import Random  # noqa: TID251 - seeded chance: a failed case can be played again

import pytest

from reconciler.model.policy import DayRule
from reconciler.schedule.cron import CronError, parse
from reconciler.schedule.cronwords import words
from tests.schedule.strategies import random_expression


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("* * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("@hourly", "Every hour"),
        ("0 */2 * * *", "Every 2 hours"),
        ("1 * * * *", "At 1 minute past the hour"),
        ("30 2 * * *", "At 02:30"),
        ("30 0 0 * * *", "At 00:00:30"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("0 9-17 * * *", "At 0 minutes past the hour, between 09:00 and 17:59"),
        ("*/15 9-17 * * *", "Every 15 minutes, between 09:00 and 17:59"),
        ("* 2 * * *", "Every minute, between 02:00 and 02:59"),
        ("0 0,12 * * *", "At 00:00 and 12:00"),
        ("0,15,30,45 2 * * *", "At 02:00, 02:15, 02:30 and 02:45"),
        # where a step does not go into the hour or the day, there is no "every"
        ("*/7 * * * *", "At every 7th minute from 0 to 56 past the hour"),
        ("*/45 * * * *", "At 0 and 45 minutes past the hour"),
        ("0 */5 * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00"),
        # two steps are not told side by side
        ("*/5 */12 * * *", "Every 5 minutes, in the hours 0 and 12"),
        ("*/20 8-10,12 * * *", "Every 20 minutes, in the hours 8 to 10 and 12"),
        ("*/20 1-3 9 * * *", "Every 20 seconds, in these minutes: at 09:01, 09:02 and 09:03"),
        # the star decides whether one day field is enough
        ("0 0 13 * 5", "At 00:00, on the 13th, and also on Friday"),
        ("0 0 */2 * 1", "At 00:00, on every 2nd day from the 1st to the 31st where that is Monday"),
        ("0 0 1-31 * 4", "At 00:00"),
        ("0 0 ? * FRI-MON", "At 00:00, on Friday to Monday"),
        ("30 7 * * 1-5", "At 07:30, on Monday to Friday"),
        ("0 0 * * 1,3,7", "At 00:00, on Monday, Wednesday and Sunday"),
        ("0 0 L * *", "At 00:00, on the last day of the month"),
        ("0 0 L-3,LW * ?", "At 00:00, on the 3rd day before the last of the month and the last workday of the month"),
        ("0 0 1-3,15W * *", "At 00:00, on the 1st to 3rd and the workday nearest to the 15th"),
        ("0 0 * * 5#3", "At 00:00, on the third Friday of the month"),
        ("0 0 * * 5L,1", "At 00:00, on Monday and the last Friday of the month"),
        ("0 0 1 NOV-FEB *", "At 00:00, on the 1st, in November to February"),
        ("@yearly", "At 00:00, on the 1st, in January"),
        # what H came out as
        ("H H(1-5) * * *", "At 03:06"),
        ("H/15 * * * *", "At 6, 21, 36, and 51 minutes past the hour"),
    ],
)
def test_a_schedule_is_told_as_it_fires(expression: str, told: str) -> None:
    assert words(parse(expression, seed="daily-sales-report")) == told


def test_the_day_rule_is_told() -> None:
    assert (
        words(parse("0 0 13 * 5,6", day_rule=DayRule.AND)) == "At 00:00, on the 13th where that is Friday or Saturday"
    )
    assert words(parse("0 0 1-31 * 4", day_rule=DayRule.AND)) == "At 00:00, on Thursday"


def test_the_machine_s_language_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "de_DE")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")

    assert words(parse("3 4 * * *")) == "At 04:03"
    assert words(parse("*/3 * * * *")) == "Every 3 minutes"


def test_every_expression_has_words() -> None:
    for number in range(500):
        try:
            cron = parse(random_expression(Random(number)))
        except CronError:
            continue
        assert words(cron)[:2] in {"At", "Ev", "Mi", "Se"}
