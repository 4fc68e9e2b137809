import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.clock import SECOND_US
from reconciler.model.definition import Job, job_from
from reconciler.model.run import Claim
from reconciler.worker.allow import Allow, CannotRunError
from reconciler.worker.execute import Place, Prepared, prepare

SLOT_US = 1_767_223_800 * SECOND_US
"""2025-12-31T23:30:00Z: another day in Berlin."""
CLAIM = Claim(
    run_id=7,
    fence=3,
    attempt=2,
    definition_id=1,
    generation=1,
    trigger_id=None,
    slot_us=SLOT_US,
    handler="command",
    parameters=None,
)


def job(handler: dict[str, Any], **spec: Any) -> Job:
    document = {"handler": handler, "timeout": "2m", "gracePeriod": "3s", **spec}
    return job_from({"kind": "Job", "metadata": {"name": "nightly"}, "spec": document})


def command(*argv: str, **payload: Any) -> Job:
    return job({"type": "command", "with": {"argv": list(argv), **payload}})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Allow.parse(["*"], "/usr/bin:/bin"), tmp_path / "data", tmp_path / "private")


def prepared(definition: Job, place: Place, claim: Claim = CLAIM, trigger: int | None = None) -> Prepared:
    chosen = None if trigger is None else definition.triggers[trigger]
    return prepare(claim, definition, chosen, place, epoch=11)


def test_a_command_keeps_its_arguments_apart_whatever_a_value_holds(place: Place) -> None:
    definition = dataclasses.replace(
        command("sh", "-c", "true", "{{ parameters.region }}"),
        parameters=job({"type": "slow"}, parameters=[{"name": "region", "default": "eu; rm -rf $HOME"}]).parameters,
    )

    spawn = prepared(definition, place).spawn

    assert spawn.argv == ["sh", "-c", "true", "eu; rm -rf $HOME"]
    assert spawn.program in {"/usr/bin/sh", "/bin/sh"}


def test_the_limits_and_the_name_come_from_job_and_claim(place: Place) -> None:
    spawn = prepared(command("true"), place).spawn

    assert (spawn.job, spawn.epoch, spawn.timeout_seconds, spawn.grace_seconds) == ("7.3", 11, 120.0, 3.0)
    assert spawn.cwd == str(place.folder)


def test_the_environment_is_clean_and_tells_the_job_what_it_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_STORE", "postgresql://owner:secret@db/reconciler")

    env = prepared(command("true", env=[{"name": "REGION", "value": "eu"}]), place).spawn.env

    assert env == {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(place.folder),
        "TMPDIR": str(place.folder),
        "RECONCILER_RUN_ID": "7",
        "RECONCILER_CLAIM": "7.3",
        "RECONCILER_FENCE": "3",
        "RECONCILER_ATTEMPT": "2",
        "RECONCILER_SLOT": "2025-12-31T23:30:00Z",
        "RECONCILER_DEFINITION": "nightly",
        "RECONCILER_DATA": str(place.data),
        "REGION": "eu",
    }


@pytest.mark.parametrize("name", ["RECONCILER_CLAIM", "LD_PRELOAD", "PATH", "HOME", "BASH_ENV", "PYTHONPATH"])
def test_a_definition_cannot_set_what_decides_which_code_runs(place: Place, name: str) -> None:
    with pytest.raises(CannotRunError, match=name):
        prepared(command("true", env=[{"name": name, "value": "x"}]), place)


def test_a_name_that_only_begins_like_a_reserved_one_is_fine(place: Place) -> None:
    env = prepared(command("true", env=[{"name": "PATHOLOGY", "value": "x"}]), place).spawn.env

    assert env["PATHOLOGY"] == "x"


def test_parameters_go_default_then_trigger_then_the_run_s_own(place: Place) -> None:
    names = ("a", "b", "c")
    definition = job(
        {"type": "command", "with": {"argv": ["echo", *(f"{{{{ parameters.{name} }}}}" for name in names)]}},
        parameters=[{"name": name, "default": "default"} for name in names],
        triggers=[{"cron": "0 0 * * *", "parameters": {"b": "trigger", "c": "trigger"}}],
    )
    claim = dataclasses.replace(CLAIM, parameters=json.dumps({"c": "own"}))

    assert prepared(definition, place, claim, trigger=0).spawn.argv == ["echo", "default", "trigger", "own"]


def test_the_slot_prints_in_the_trigger_s_zone_and_in_utc_where_there_is_none(place: Place) -> None:
    definition = job(
        {"type": "command", "with": {"argv": ["echo", '{{ slot | date("%Y-%m-%d") }}']}},
        triggers=[{"cron": "30 0 * * *", "timeZone": "Europe/Berlin"}],
    )

    assert prepared(definition, place, trigger=0).spawn.argv == ["echo", "2026-01-01"]
    assert prepared(definition, place).spawn.argv == ["echo", "2025-12-31"]


def test_a_parameter_that_is_no_text_is_printed_as_json_in_an_argument(place: Place) -> None:
    definition = job(
        {"type": "command", "with": {"argv": ["echo", "{{ parameters.rows }}"]}},
        parameters=[{"name": "rows", "default": 12}],
    )

    assert prepared(definition, place).spawn.argv == ["echo", "12"]


def test_a_placeholder_that_names_nothing_is_told_as_such(place: Place) -> None:
    with pytest.raises(CannotRunError, match=r'payload cannot be filled: placeholder "parameters\.region"'):
        prepared(command("echo", "{{ parameters.region }}"), place)


def test_a_demo_handler_runs_isolated_with_its_payload_on_standard_input(place: Place) -> None:
    claim = dataclasses.replace(CLAIM, handler="slow")

    ready = prepared(job({"type": "slow", "with": {"duration": "3s"}}), place, claim)

    assert ready.spawn.program == sys.executable
    assert ready.spawn.argv == [sys.executable, "-I", "-m", "reconciler.worker.handlers", "slow"]
    assert json.loads(ready.stdin or b"") == {"duration": "3s"}
