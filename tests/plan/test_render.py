import json
from typing import Any

import pytest

from reconciler.plan.diff import Plan
from reconciler.plan.guard import Held
from reconciler.plan.render import About, as_json, as_text, exit_code
from tests.plan.cast import NOW_US, declared, planned, stored, tree

NIGHT = "2026-01-01T02:00:00Z"
MORNING = "2026-01-01T06:30:00Z (2026-01-01T07:30:00+01:00 Europe/Berlin)"
ABOUT = About("default", "jobs.d", "store", "sqlite:///store.db", NOW_US, "reconciler reconcile jobs.d")


def everything() -> Plan:
    """A plan with one change of each kind."""
    weekdays = {"name": "weekdays", "cron": "30 7 * * 1-5", "timeZone": "Europe/Berlin"}
    desired = tree(
        declared("new", file="jobs.d/new.yaml", line=4, triggers=[weekdays, {"name": "pulse", "every": "15m"}]),
        declared(
            "changed",
            lines={"spec.priority": 12, "spec.triggers[0].cron": 15},
            line=8,
            priority=9,
            suspend=True,
            triggers=[{"cron": "0 2 * * *"}],
        ),
        declared("moved", file="jobs.d/elsewhere.yaml"),
        declared("same"),
        *(declared(f"other-{number}") for number in range(5)),
    )
    actual = [
        stored("changed", generation=3, triggers=[{"cron": "0 1 * * *"}]),
        stored("gone", file="jobs.d/gone.yaml", line=2),
        *(stored(name) for name in ("moved", "same", *(f"other-{number}" for number in range(5)))),
    ]
    return planned(desired, actual)


def test_a_plan_says_what_why_and_how_to_apply_exactly_it() -> None:
    plan = everything()

    assert as_text(plan, ABOUT).splitlines() == [
        'plan of source "default": jobs.d against store sqlite:///store.db',
        "now: 2026-01-01T00:00:00Z",
        "",
        "~ update     changed  jobs.d/x.yaml:8  generation 3 to 4",
        "      spec.priority: (none) -> 9  (line 12)",
        "      spec.suspend: (none) -> true",
        '      spec.triggers[0].cron: "0 1 * * *" -> "0 2 * * *"  (line 15)',
        f'      trigger default: cron "0 2 * * *" in UTC (at 02:00); next {NIGHT}; suspended: nothing fires',
        "        before: next 2026-01-01T01:00:00Z",
        "      fire times until 2026-01-15T00:00:00Z: 14 lost (first 2026-01-01T01:00:00Z)",
        "- delete     gone     was jobs.d/gone.yaml:2",
        "= unchanged  moved    jobs.d/elsewhere.yaml:1  moved from jobs.d/x.yaml:1",
        "+ create     new      jobs.d/new.yaml:4",
        f'      trigger weekdays: cron "30 7 * * 1-5" in Europe/Berlin (at 07:30, on Monday to Friday); next {MORNING}',
        "      trigger pulse: every 15m from its activation; next 2026-01-01T00:15:00Z",
        "      fire times until 2026-01-15T00:00:00Z: 1,354 gained (first 2026-01-01T00:15:00Z)",
        *(f"= unchanged  other-{number}  jobs.d/x.yaml:1" for number in range(5)),
        "= unchanged  same     jobs.d/x.yaml:1",
        "",
        "1 to create, 1 to update, 1 to delete, 7 unchanged",
        f"plan digest: {plan.digest}",
        f"to apply exactly this: reconciler reconcile jobs.d --expect-digest {plan.digest}",
    ]


def test_the_same_plan_at_the_same_instant_gives_the_same_bytes() -> None:
    """G10."""
    assert as_text(everything(), ABOUT) == as_text(everything(), ABOUT)
    assert as_json(everything(), ABOUT) == as_json(everything(), ABOUT)


def test_a_held_plan_says_what_is_held_and_how_to_release_it() -> None:
    plan = planned(tree(), [stored("a"), stored("b")])
    assert isinstance(plan.ruling, Held)

    shown = as_text(plan, ABOUT)

    assert "! held       a  was jobs.d/x.yaml:1; not deleted now, see below" in shown
    assert "! held: the source declares nothing any more: 2 definitions would be deleted, all it declared" in shown
    assert f"reconciler approve {plan.ruling.digest}" in shown
    assert "0 to delete, 2 held" in shown
    assert "--expect-digest" not in shown


def test_withheld_deletions_are_shown_and_the_rest_can_be_applied() -> None:
    plan = planned(tree(declared("new"), broken=["bad"]), [stored("bad", generation=2), stored("old")])

    shown = as_text(plan, ABOUT)

    assert "x invalid    bad  jobs.d/bad.yaml:3  generation 2 goes on" in shown
    assert "! held       old" in shown
    assert "! deletions withheld: 1 definition no longer declared" in shown
    assert "--expect-digest" in shown


def test_an_empty_plan_has_nothing_to_apply() -> None:
    assert as_text(planned(tree(declared("a")), [stored("a")]), ABOUT).endswith("nothing to apply")


def test_against_no_store_everything_counts_as_new() -> None:
    about = About("default", "jobs.d", "nothing", "", NOW_US, "reconciler reconcile jobs.d")

    assert as_text(planned(tree(), []), about).startswith(
        'plan of source "default": jobs.d against nothing (no store: everything counts as new)'
    )


def test_a_one_off_in_the_past_is_said_to_fire_no_more() -> None:
    plan = planned(tree(declared("a", triggers=[{"at": "2025-01-01T00:00:00Z"}])), [])

    assert "trigger default: at 2025-01-01T00:00:00Z; does not fire any more" in as_text(plan, ABOUT)


def test_triggers_that_go_are_named() -> None:
    actual = [stored("a", triggers=[{"name": "x", "every": "5m"}, {"name": "y", "every": "5m"}])]

    shown = as_text(planned(tree(declared("a", triggers=[{"name": "x", "every": "5m"}])), actual), ABOUT)

    assert "trigger y: taken out" in shown
    assert "trigger x:" not in shown


def test_json_carries_versions_changes_and_fires() -> None:
    told: dict[str, Any] = json.loads(as_json(everything(), ABOUT, problems=[{"rule": "a.b"}]))

    assert told["formatVersion"] == "1.0"
    assert (told["level"], told["now"], told["ruling"]) == ("store", "2026-01-01T00:00:00Z", {"result": "Allowed"})
    assert told["counts"] == {"create": 1, "update": 1, "delete": 1, "held": 0, "unchanged": 7, "invalid": 0}
    assert told["problems"] == [{"rule": "a.b"}]
    changes = {change["name"]: change for change in told["changes"]}
    assert changes["new"]["triggers"][0] == {
        "name": "weekdays",
        "cron": "30 7 * * 1-5",
        "timeZone": "Europe/Berlin",
        "nextFireTime": "2026-01-01T06:30:00Z",
        "nextFireTimeBefore": None,
        "clockChanges": [],
    }
    assert changes["new"]["fireTimes"]["gained"]["count"] == 10 + 4 * 24 * 14
    assert changes["changed"]["generation"] == 4
    field = {"path": "spec.priority", "before": None, "after": 9, "line": 12, "inheritedFrom": None}
    assert field in changes["changed"]["fields"]
    assert changes["changed"]["triggers"][0]["nextFireTime"] is None
    assert changes["gone"] == {
        "action": "delete",
        "kind": "Job",
        "name": "gone",
        "file": "jobs.d/gone.yaml",
        "line": 2,
        "uid": "uid-gone",
        "generation": 1,
        "fireTimes": {
            "until": "2026-01-15T00:00:00Z",
            "gained": {"count": 0, "first": []},
            "lost": {"count": 0, "first": []},
            "kept": 0,
            "notCompared": [],
        },
    }


@pytest.mark.parametrize(
    ("plan", "facts", "code"),
    [
        (planned(tree(declared("a")), [stored("a")]), {}, 0),
        (planned(tree(declared("a")), []), {}, 0),
        (planned(tree(declared("a")), []), {"detailed": True}, 2),
        (planned(tree(declared("a")), [stored("a")]), {"detailed": True}, 0),
        (planned(tree(declared("a")), []), {"detailed": True, "errors": 1}, 1),
        (planned(tree(declared("a")), []), {"warnings": 1}, 0),
        (planned(tree(declared("a")), []), {"warnings": 1, "strict": True}, 1),
        (planned(tree(), [stored("a")]), {"errors": 1, "detailed": True}, 3),
    ],
)
def test_exit_codes_are_those_of_the_interface(plan: Plan, facts: dict[str, Any], code: int) -> None:
    """When several apply: 3, 1, 2, 0."""
    given: dict[str, Any] = {"errors": 0, "warnings": 0, **facts}

    assert exit_code(plan, **given) == code
