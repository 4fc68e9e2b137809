"""What people see of an installation: status, lists, descriptions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reconcile.cast import document

Ask = Callable[..., Any]


def test_the_status_of_an_installation_without_processes(asked: Ask, told: Callable[..., str]) -> None:
    told("trigger", "report")

    status = asked("status")

    assert status["leader"] is None
    assert status["definitions"] == {"active": 2, "suspended": 1, "degraded": 0}
    assert status["runs"] == {"Pending": 1}
    assert [(each["name"], each["waiting"], each["unserved"]) for each in status["queues"]] == [
        ("default", 0, ["slow"]),
        ("reports", 1, ["slow"]),
    ]
    assert [each["definition"] for each in status["nextFires"]] == ["report"]
    assert status["sources"][0]["lastPass"]["state"] == "Applied"
    text = told("status")
    assert "nobody leads" in text
    assert f"time zones of {status['tzdata']}" in text


def test_the_status_says_what_is_broken_and_held(home: Path, asked: Ask, told: Callable[..., str]) -> None:
    (home / "jobs.d" / "report.yaml").write_text(document("report", priorty=1))
    told("reconcile", code=1)

    status = asked("status")

    assert status["definitions"]["degraded"] == 1
    assert status["notApplied"][0]["why"].startswith("Degraded")
    assert status["sources"][0]["problems"] == 1
    assert "jobs.d/report.yaml:" in told("describe", "job", "report")
    assert 'unknown field "priorty". Did you mean "priority"? (schema.unknown-field;' in told(
        "describe", "job", "report"
    )
    assert "pass 2 Invalid, 1 problem\n" in told("status")


def test_definitions_and_runs_carry_the_fields_of_the_interface(asked: Ask, told: Callable[..., str]) -> None:
    told("trigger", "report")

    (definition,) = [each for each in asked("get", "jobs")["items"] if each["name"] == "report"]
    (run_,) = asked("runs", "list")["items"]

    assert {
        *("kind", "name", "uid", "generation", "observedGeneration", "conditions", "queue", "owner", "file", "line"),
        *("revision", "previousFireTime", "nextFireTime", "lastRun", "lastSuccess"),
    } <= definition.keys()
    wanted = {
        *("id", "definition", "kind", "trigger", "slot", "state", "reason", "attempt", "lostLeases", "fence", "node"),
        *("queue", "priority", "createdAt", "startedAt", "finishedAt", "exitCode", "error", "generation", "revision"),
    }
    assert wanted <= run_.keys()
    assert {*wanted, "output"} <= asked("runs", "show", str(run_["id"])).keys()
    assert asked("describe", "run", str(run_["id"]))["reason"].startswith("no living worker")


def test_describe_says_what_holds_and_which_of_it_is_declared(asked: Ask, told: Callable[..., str]) -> None:
    described = asked("describe", "job", "report")

    held = {each["field"]: (each["value"], each["from"]) for each in described["effective"]}
    assert held["queue"] == ("reports", "file")
    assert held["timeout"] == ("1h", "default")
    assert len(described["triggers"][0]["nextFireTimes"]) == 5
    assert asked("describe", "job", "still")["triggers"][0]["nextFireTimes"] == []
    assert asked("describe", "queue", "reports")["jobs"] == 1
    assert asked("describe", "pass", "1")["report"]["created"] == ["report", "still", "queue reports"]
    assert "timeout" in told("describe", "job", "report")
    assert "reports" in told("describe", "queue", "reports")
    assert "Applied" in told("describe", "pass", "1")


@pytest.mark.parametrize(
    "line", [("job", "nope"), ("run", "99"), ("worker", "nope"), ("queue", "nope"), ("pass", "99")]
)
def test_what_does_not_exist_is_said(home: Path, told: Callable[..., str], line: tuple[str, str]) -> None:
    assert "there is no" in told("describe", *line, code=1) or line[0] == "queue"
