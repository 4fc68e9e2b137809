"""Fire times gained and lost by a change (G10: as an apply at that instant then fires)."""

from typing import Any

import pytest

from reconciler.clock import SECOND_US, iso
from reconciler.model.definition import Job, job_from
from reconciler.plan.effects import Fires, Side, fires, fires_lines
from tests.turned import START_US

DAY_US = 24 * 3600 * SECOND_US
HOURLY = {"name": "hourly", "cron": "0 * * * *"}
DAILY = {"name": "daily", "cron": "0 7 * * *"}


def declared(*triggers: dict[str, Any], suspend: bool = False) -> Job:
    spec = {"handler": {"type": "slow"}, "suspend": suspend, "triggers": list(triggers)}
    return job_from({"apiVersion": "reconciler/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})


def compared(after: Job | None, before: Job | None, days: int = 1) -> Fires:
    return fires(Side(after), Side(before), START_US, days * DAY_US)


def hours(slots: Any) -> list[str]:
    return [iso(slot)[11:13] for slot in slots]


def test_a_new_job_gains_and_a_deleted_one_loses_everything() -> None:
    assert hours(compared(declared(DAILY), None).gained) == ["07"]
    assert hours(compared(None, declared(DAILY)).lost) == ["07"]


def test_a_changed_time_is_one_lost_and_one_gained_and_what_stays_is_counted() -> None:
    found = compared(declared(HOURLY, {**DAILY, "cron": "30 7 * * *"}), declared(HOURLY, DAILY))

    assert (hours(found.gained), hours(found.lost), found.kept) == (["07"], ["07"], 24)


def test_a_renamed_trigger_loses_nothing() -> None:
    found = compared(declared({**DAILY, "name": "renamed"}), declared(DAILY), days=7)

    assert (found.gained, found.lost, found.kept) == ([], [], 7)


@pytest.mark.parametrize(
    "held",
    [
        declared(DAILY, suspend=True),
        declared({**DAILY, "suspend": True}),
        declared({**DAILY, "notAfter": iso(START_US)}),
    ],
)
def test_what_is_suspended_or_out_of_bounds_does_not_fire(held: Job) -> None:
    assert hours(compared(held, declared(DAILY)).lost) == ["07"]
    assert hours(compared(declared(DAILY), held).gained) == ["07"]


def test_a_clock_change_rule_shows_in_what_is_lost() -> None:
    """The night of 29 March 2026 in Berlin."""
    nightly = {"cron": "30 2 * * *", "timeZone": "Europe/Berlin"}

    found = compared(declared({**nightly, "dst": {"gap": "Skip"}}), declared(nightly), days=120)

    assert ([iso(slot) for slot in found.lost], found.gained) == (["2026-03-29T01:00:00Z"], [])


def test_an_interval_that_counts_from_its_activation_is_not_compared_when_it_changes() -> None:
    found = compared(declared({"every": "2h"}), declared({"every": "1h"}))

    assert (found.gained, found.lost, found.uncounted) == ([], [], {"default": "they count from the activation"})
    assert list(fires_lines(found, START_US)) == [
        "      fire times of default are not compared: they count from the activation"
    ]


def test_an_interval_that_is_taken_out_or_renamed_shows_no_instants_that_it_never_had() -> None:
    pulse = {"name": "pulse", "every": "1h"}

    taken_out = compared(declared(DAILY), declared(pulse, DAILY))
    renamed = compared(declared({**pulse, "name": "beat"}), declared(pulse))

    assert (taken_out.lost, taken_out.kept, set(taken_out.uncounted)) == ([], 1, {"pulse"})
    assert (renamed.gained, renamed.lost, set(renamed.uncounted)) == ([], [], {"pulse", "beat"})


def test_an_interval_that_stays_as_it_is_stays() -> None:
    found = compared(declared({"name": "pulse", "every": "1h"}, DAILY), declared({"name": "pulse", "every": "1h"}))

    assert (hours(found.gained), found.lost, found.kept) == (["07"], [], 24)
