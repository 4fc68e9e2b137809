"""What jobs take from defaults, and from which place; and which queue they may wait in."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.definition import Job
from reconciler.model.tree import Tree
from reconciler.spec.load import load_tree


def write(folder: Path, file: str, kind: str, name: str, **spec: Any) -> None:
    body = {"apiVersion": "reconciler/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    with (folder / f"{file}.yaml").open("a", encoding="utf-8") as stream:
        stream.write(f"---\n{yaml.safe_dump(body, sort_keys=False)}")


def job_of(tree: Tree, name: str = "report") -> Job:
    (found,) = [each.declared for each in tree.definitions if each.key == ("Job", name)]
    assert isinstance(found, Job)
    return found


SLOW = {"type": "slow", "with": {"duration": "1s"}}


def test_a_job_takes_what_it_does_not_say_from_the_defaults_it_names(tmp_path: Path) -> None:
    write(tmp_path, "d", "Defaults", "team", job={"owner": "team@northstar.example", "priority": 7, "timeout": "5m"})
    write(tmp_path, "j", "Job", "report", defaults="team", priority=2, handler=SLOW)

    job = job_of(load_tree(tmp_path))

    assert (job.owner, job.priority, job.timeout_us) == ("team@northstar.example", 2, 300_000_000)


@pytest.mark.parametrize(
    ("declared", "mend"),
    [
        ([], "No file of this source declares any: declare them as an object of kind: Defaults with the name nonesuch"),
        (["team", "nightly"], "Write nightly, team or none; or declare them"),
        (["nonesuc"], 'Did you mean "nonesuc"?'),
    ],
)
def test_defaults_that_are_not_there_are_answered_with_those_that_are(
    declared: list[str], mend: str, tmp_path: Path
) -> None:
    for name in declared:
        write(tmp_path, "d", "Defaults", name, job={"priority": 7})
    write(tmp_path, "j", "Job", "report", defaults="nonesuch", handler=SLOW)

    (problem,) = load_tree(tmp_path).problems

    assert problem.rule == "defaults.unknown"
    assert problem.mend.startswith(mend)


def test_mappings_are_merged_deep_and_lists_are_replaced(tmp_path: Path) -> None:
    write(
        tmp_path,
        "d",
        "Defaults",
        "team",
        job={
            "handler": {"type": "command", "with": {"argv": ["a", "b"], "env": [{"name": "A", "value": "1"}]}},
            "retry": {"maxAttempts": 3, "on": {"exitCodes": [75, 76]}},
        },
    )
    own = {"with": {"env": [{"name": "B", "value": "2"}]}}
    write(tmp_path, "j", "Job", "report", defaults="team", handler=own, retry={"on": {"exitCodes": [1]}})

    job = job_of(load_tree(tmp_path))

    assert job.handler.type == "command"
    assert job.handler.payload == {"argv": ["a", "b"], "env": [{"name": "B", "value": "2"}]}
    assert (job.retry.max_attempts, job.retry.on_codes) == (3, frozenset({1}))


def test_triggers_take_their_part_and_an_interval_takes_no_time_zone(tmp_path: Path) -> None:
    write(tmp_path, "d", "Defaults", "team", trigger={"timeZone": "Europe/Berlin"})
    triggers = [
        {"name": "a", "cron": "0 7 * * *"},
        {"name": "b", "every": "5m"},
        {"name": "c", "cron": "0 7 * * *", "timeZone": "UTC"},
    ]
    write(tmp_path, "j", "Job", "report", defaults="team", handler=SLOW, triggers=triggers)

    taken = [each.timing_document.get("timeZone") for each in job_of(load_tree(tmp_path)).triggers]

    assert taken == ["Europe/Berlin", None, "UTC"]


@pytest.mark.parametrize(
    ("named", "priority"), [({}, 8), ({"defaults": "none"}, 5), ({"defaults": "team"}, 7), ({"defaults": "default"}, 8)]
)
def test_the_defaults_called_default_are_taken_by_who_names_no_others(
    tmp_path: Path, named: dict[str, str], priority: int
) -> None:
    write(tmp_path, "d", "Defaults", "default", job={"priority": 8})
    write(tmp_path, "d", "Defaults", "team", job={"priority": 7})
    write(tmp_path, "j", "Job", "report", handler=SLOW, **named)

    assert job_of(load_tree(tmp_path)).priority == priority


def test_a_job_is_the_same_whoever_says_it_and_wherever(tmp_path: Path) -> None:
    """protocol.md: the digest is over the declared spec after defaults."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    write(tmp_path / "one", "j", "Job", "report", handler=SLOW, priority=7)
    write(tmp_path / "two", "d", "Defaults", "default", job={"priority": 7})
    write(tmp_path / "two", "j", "Job", "report", handler=SLOW)

    one, two = (job_of(load_tree(tmp_path / name)) for name in ("one", "two"))

    assert one.digest == two.digest
    assert two.document["spec"]["priority"] == 7


def test_a_fault_in_what_was_taken_is_told_at_its_place_with_the_job_that_takes_it(tmp_path: Path) -> None:
    write(tmp_path, "d", "Defaults", "default", trigger={"timeZone": "Europe/Berln"})
    write(tmp_path, "j", "Job", "report", handler=SLOW, triggers=[{"cron": "0 7 * * *"}])

    (problem,) = load_tree(tmp_path).problems

    assert (Path(problem.place.file).name, problem.place.line, problem.place.column) == ("d.yaml", 8, 15)
    assert problem.where == "spec.triggers[0].timeZone"
    assert problem.what.endswith('(job "report" takes it from defaults "default")')


def test_jobs_whose_defaults_or_queue_are_broken_are_held_back_and_the_fault_is_told_once(tmp_path: Path) -> None:
    """G4: whatever refers to a broken definition changes nothing of itself."""
    write(tmp_path, "d", "Defaults", "team", job={"priority": 77})
    write(tmp_path, "d", "Queue", "narrow", max=0)
    for name in ("a", "b"):
        write(tmp_path, "j", "Job", name, defaults="team")
    write(tmp_path, "j", "Job", "c", queue="narrow", handler=SLOW)
    write(tmp_path, "j", "Job", "d", handler=SLOW)

    tree = load_tree(tmp_path)

    assert [each.key for each in tree.definitions] == [("Job", "d")]
    assert [problem.what for problem in tree.problems] == ["priority 77 is above 9", "max 0 is below 1"]
    jobs = {("Job", "a"), ("Job", "b"), ("Job", "c")}
    assert set(tree.broken_names) == {("Defaults", "team"), ("Queue", "narrow"), *jobs}
    assert tree.complete


def test_a_definition_knows_where_each_of_its_fields_came_from(tmp_path: Path) -> None:
    write(tmp_path, "d", "Defaults", "team", job={"priority": 7})
    write(tmp_path, "j", "Job", "report", defaults="team", handler=SLOW)

    (found,) = [each for each in load_tree(tmp_path).definitions if each.key == ("Job", "report")]

    assert found.lines["spec.handler.type"] == 9
    assert found.inherited["spec.priority"] == f"defaults team, {tmp_path}/d.yaml:8"
    assert "spec.priority" not in found.lines


def test_names_are_unique_by_kind(tmp_path: Path) -> None:
    write(tmp_path, "a", "Defaults", "reports")
    write(tmp_path, "a", "Queue", "reports")
    write(tmp_path, "a", "Job", "reports", queue="reports", defaults="reports", handler=SLOW)

    tree = load_tree(tmp_path)

    assert not tree.problems
    assert len(tree.definitions) == 3


def test_the_queue_called_default_needs_no_declaration(tmp_path: Path) -> None:
    write(tmp_path, "j", "Job", "report", queue="default", handler=SLOW)

    assert not load_tree(tmp_path).problems
