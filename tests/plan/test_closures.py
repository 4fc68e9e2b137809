"""What a calendar's change does to the jobs that mind it, in a plan (G10)."""

import json
from typing import Any

from reconciler.errors import Place
from reconciler.model.kinds import declared_from
from reconciler.model.tree import Definition
from reconciler.plan.diff import Stored
from reconciler.plan.render import About, as_json, as_text
from tests.plan.cast import NOW_US, declared, planned, stored, tree

ABOUT = About("default", "jobs.d", "store", "sqlite:///store.db", NOW_US, "reconciler reconcile jobs.d")
NIGHTLY = [{"cron": "0 3 * * *", "calendars": [{"name": "freeze"}]}]


def document(*windows: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "reconciler/v1",
        "kind": "Calendar",
        "metadata": {"name": "freeze"},
        "spec": {"windows": list(windows)},
    }


def calendar(*windows: dict[str, Any]) -> Definition:
    return Definition(declared_from(document(*windows)), Place("jobs.d/c.yaml", 1))


def stored_calendar(*windows: dict[str, Any]) -> Stored:
    made = declared_from(document(*windows))
    return Stored("uid-c", "Calendar", "freeze", 1, made.digest, made.document, "jobs.d/c.yaml", 1)


WEEKEND = {"weekdays": ["Sat", "Sun"]}
NEW_YEAR = {"from": "2026-01-01", "to": "2026-01-04"}


def test_a_changed_calendar_shows_which_fire_times_its_jobs_lose_and_gain() -> None:
    plan = planned(
        tree(calendar(NEW_YEAR), declared("nightly", triggers=NIGHTLY), declared("other")),
        [stored_calendar(WEEKEND), stored("nightly", triggers=NIGHTLY), stored("other")],
    )

    shown = as_text(plan, ABOUT)

    assert (
        "      nightly: fire times until 2026-01-15T00:00:00Z: "
        "2 gained (first 2026-01-10T03:00:00Z), 2 lost (first 2026-01-01T03:00:00Z), 8 stay\n" in shown
    )
    assert "other: fire" not in shown
    (change,) = (each for each in json.loads(as_json(plan, ABOUT))["changes"] if each["kind"] == "Calendar")
    assert [(each["name"], each["fireTimes"]["lost"]["count"]) for each in change["jobs"]] == [("nightly", 2)]


def test_a_job_that_begins_to_mind_a_calendar_says_so_and_when_it_fires_next() -> None:
    plan = planned(
        tree(calendar(NEW_YEAR), declared("nightly", triggers=NIGHTLY)),
        [stored("nightly", triggers=[{"cron": "0 3 * * *"}])],
    )

    shown = as_text(plan, ABOUT)

    assert "(at 03:00), skip while calendar freeze is closed; next 2026-01-05T03:00:00Z" in shown
    assert "        before: next 2026-01-01T03:00:00Z" in shown
    assert "4 lost (first 2026-01-01T03:00:00Z), 10 stay" in shown


def test_a_deferred_fire_shows_when_it_will_run() -> None:
    deferring = [{"cron": "0 3 * * *", "calendars": [{"name": "freeze", "action": "Defer"}]}]
    plan = planned(tree(calendar(NEW_YEAR), declared("nightly", triggers=deferring)), [])

    assert "next 2026-01-04T03:00:00Z, deferred to 2026-01-05T00:00:00Z" in as_text(plan, ABOUT)


def test_a_calendar_that_cannot_be_read_here_stops_no_plan() -> None:
    unreadable = {**document(WEEKEND), "spec": {"windows": [{"moons": ["full"]}]}}
    before = Stored("uid-c", "Calendar", "freeze", 1, "d", unreadable, "jobs.d/c.yaml", 1)
    plan = planned(
        tree(calendar(WEEKEND), declared("nightly", triggers=NIGHTLY)), [before, stored("nightly", triggers=NIGHTLY)]
    )

    assert "nightly: fire times of default are not compared: its calendar is not known here" in as_text(plan, ABOUT)
