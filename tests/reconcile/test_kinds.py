"""Queues and defaults from files to the store: planned, applied, pruned, guarded."""

import dataclasses
from pathlib import Path

import pytest

from reconciler.plan.render import About, as_text
from reconciler.reconcile.planning import plan_against
from reconciler.spec.load import load_tree
from reconciler.store import queue_views
from reconciler.store.passes import PassState
from tests.reconcile.cast import Committer

ABOUT = About("default", "jobs.d", "store", "here", 1_767_225_600_000_000, "reconciler reconcile jobs.d")


def state_of(committer: Committer, name: str) -> queue_views.Queue:
    return {each.name: each for each in committer.store.database.read(queue_views.listed)}[name]


def plan_of(committer: Committer) -> list[str]:
    tree = dataclasses.replace(load_tree(committer.folder), root=str(committer.folder))
    plan = plan_against(committer.store.database, "default", tree).plan
    return as_text(plan, ABOUT).replace(f"{committer.folder}/", "").splitlines()


def test_a_queue_is_created_changed_and_deleted_like_a_job(committer: Committer) -> None:
    committer.declare("Queue", "reports", max=2)
    committer.write("report", queue="reports")
    created = plan_of(committer)
    committer.apply()
    committer.declare("Queue", "reports", max=3, suspend=True)
    changed = plan_of(committer)
    committer.apply()
    committer.remove("queue-reports")
    committer.write("report")
    deleted = plan_of(committer)

    assert created[3:5] == [
        "+ create     report         report.yaml:1",
        "+ create     queue reports  queue-reports.yaml:1",
    ]
    assert changed[4:7] == [
        "~ update     queue reports  queue-reports.yaml:1  generation 1 to 2",
        "      spec.max: 2 -> 3  (line 6)",
        "      spec.suspend: (none) -> true  (line 7)",
    ]
    assert "- delete     queue reports  was queue-reports.yaml:1" in deleted
    state = state_of(committer, "reports")
    assert (state.max_running, state.suspended) == (3, True)
    committer.apply()
    assert {each.name for each in committer.store.database.read(queue_views.listed)} == {"default"}


def test_applying_all_kinds_twice_changes_nothing(committer: Committer) -> None:
    """G1."""
    committer.declare("Queue", "reports", max=2, agingPerLevel="5m", description="All reports.")
    committer.declare("Defaults", "default", job={"queue": "reports"}, trigger={"timeZone": "Europe/Berlin"})
    committer.write("report", triggers=[{"cron": "0 7 * * *"}])
    first = committer.apply()
    before = [committer.live(kind) for kind in ("Job", "Queue", "Defaults")]

    second = committer.apply()

    assert (first.state, second.state) == (PassState.APPLIED, PassState.UNCHANGED)
    assert [committer.live(kind) for kind in ("Job", "Queue", "Defaults")] == before
    assert committer.live()["report"].queue == "reports"


def test_a_queue_that_a_job_still_names_is_not_deleted(committer: Committer) -> None:
    committer.declare("Queue", "reports", max=2)
    committer.write("report", queue="reports")
    committer.apply()
    committer.remove("queue-reports")

    ended = committer.apply()

    assert ended.state is PassState.INVALID
    assert ended.report["withheld"] == ["queue reports"]
    assert [each["what"] for each in ended.report["problems"]] == ['there is no queue called "reports"']
    assert state_of(committer, "reports").max_running == 2
    assert committer.live()["report"].condition


@pytest.mark.parametrize("kept", [True, False])
def test_defaults_that_a_job_still_names_are_not_deleted(committer: Committer, kept: bool) -> None:
    committer.declare("Defaults", "team", job={"priority": 7})
    committer.write("report", **({"defaults": "team"} if kept else {}))
    committer.write("other")
    committer.apply()
    committer.remove("defaults-team")

    ended = committer.apply()

    assert ended.state is (PassState.INVALID if kept else PassState.APPLIED)
    assert ("team" in committer.live("Defaults")) is kept


def test_a_changed_default_shows_which_jobs_change_and_where_the_value_came_from(committer: Committer) -> None:
    committer.declare("Defaults", "team", job={"priority": 7})
    committer.write("report", defaults="team")
    committer.write("other")
    committer.apply()
    committer.declare("Defaults", "team", job={"priority": 2})

    plan = plan_of(committer)
    committer.apply()

    assert plan[3:10] == [
        "~ update     defaults team  defaults-team.yaml:1  generation 1 to 2",
        "      spec.job.priority: 7 -> 2  (line 7)",
        "= unchanged  other          other.yaml:1",
        "~ update     report         report.yaml:1  generation 1 to 2",
        "      spec.priority: 7 -> 2  (from defaults team, defaults-team.yaml:7)",
        "",
        "0 to create, 2 to update, 0 to delete, 1 unchanged",
    ]
    assert committer.live()["report"].document["spec"]["priority"] == 2


def test_a_broken_default_leaves_the_last_good_version_of_its_jobs(committer: Committer) -> None:
    """G4."""
    committer.declare("Defaults", "default", job={"priority": 7})
    committer.write("report")
    committer.apply()
    committer.declare("Defaults", "default", job={"priority": 77})
    committer.write("report", description="changed")

    ended = committer.apply()

    report = committer.live()["report"]
    assert ended.report["kept"] == ["defaults default", "report"]
    assert (report.generation, report.document["spec"]["priority"]) == (1, 7)


def test_deleted_queues_count_for_the_deletion_guard(committer: Committer) -> None:
    """G5."""
    for number in range(4):
        committer.declare("Queue", f"queue-{number}")
    committer.write("report")
    committer.apply()
    committer.remove("queue-queue-0", "queue-queue-1", "queue-queue-2")

    ended = committer.apply()

    assert ended.state is PassState.REFUSED
    assert ended.report["held"] == ["queue queue-0", "queue queue-1", "queue queue-2"]


def test_a_queue_of_another_source_is_not_taken_over(committer: Committer, tmp_path: Path) -> None:
    """G7."""
    committer.declare("Queue", "reports", max=2)
    committer.apply()
    other = tmp_path / "other"
    other.mkdir()
    (other / "queue.yaml").write_text((committer.folder / "queue-reports.yaml").read_text())

    ended = committer.apply(committer.applier_of(other, name="other"))

    assert ended.state is PassState.INVALID
    assert [each["what"] for each in ended.report["problems"]] == [
        'queue "reports" of source "other" belongs to source "default" already'
    ]
