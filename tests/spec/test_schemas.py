"""The published schemas themselves, as editors and we read them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from jsonschema import Draft7Validator

from reconciler.model import definition
from reconciler.model.definition import job_from
from reconciler.model.duration import parse_duration
from reconciler.model.kinds import KINDS
from reconciler.model.trigger import Rules, rules_from
from reconciler.spec import later, payload
from reconciler.spec.schemas import JOB, faults, faults_by, handler_types, schema
from reconciler.worker import execute

ALL = [
    JOB,
    "queue",
    "defaults",
    *(
        f"handlers/{kind}"
        for kind in ("cleanup", "command", "csv-transform", "flaky", "noop", "report-generator", "slow")
    ),
]
FULL_JOB: dict[str, Any] = {
    "apiVersion": "reconciler/v1",
    "kind": "Job",
    "metadata": {"name": "full", "labels": {"team": "reporting", "northstar.example/tier": "gold"}},
    "spec": {
        "description": "Everything that acts.",
        "owner": "reporting@northstar.example",
        "defaults": "none",
        "suspend": False,
        "handler": {"type": "slow", "with": {"duration": "5s"}},
        "parameters": [{"name": "region", "schema": {"type": "string", "enum": ["eu", "us"]}, "default": "eu"}],
        "triggers": [
            {
                "name": "cron",
                "cron": "30 7 * * 1-5",
                "timeZone": "Europe/Berlin",
                "dst": {"gap": "Skip", "overlap": "Both"},
                "dayRule": "And",
                "jitter": "2m",
                "calendars": [{"name": "holidays", "action": "Defer"}],
                "notBefore": "2026-01-01T00:00:00Z",
                "notAfter": "2028-01-01T00:00:00Z",
                "suspend": True,
                "misfire": {"policy": "RunAllMissed", "window": "6h", "cap": 10},
                "startingDeadline": "30m",
                "parameters": {"region": "us"},
            },
            {"name": "every", "every": "15m", "anchor": "2026-01-01T00:00:00Z"},
            {"name": "at", "at": "2026-12-31T23:00:00+01:00"},
        ],
        "queue": "reports",
        "priority": 9,
        "timeout": "15m",
        "gracePeriod": "30s",
        "retry": {
            "maxAttempts": 3,
            "backoff": "Linear",
            "initial": "5s",
            "max": "1h",
            "factor": 3,
            "on": {"exitCodes": [75]},
            "neverOn": {"exitCodes": [64]},
        },
        "startingDeadline": "6h",
        "poison": {"maxLostLeases": 5},
        "onDelete": "Cancel",
    },
}


def fields(node: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """List every field that a schema declares, with its path."""
    if isinstance(node, Mapping) and node.get("title") != "JSON Schema of a parameter":
        for name, value in node.get("properties", {}).items():
            yield f"{path}.{name}", value
        for name, value in node.items():
            yield from fields(value, path if name in {"properties", "items"} else f"{path}.{name}")
    elif isinstance(node, list):
        for value in node:
            yield from fields(value, path)


@pytest.mark.parametrize("name", ALL)
def test_each_schema_is_valid_draft_07(name: str) -> None:
    Draft7Validator.check_schema(schema(name))
    assert schema(name)["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema(name)["additionalProperties"] is False


@pytest.mark.parametrize("name", ALL)
def test_each_field_has_title_description_and_examples_for_editors(name: str) -> None:
    for path, field in fields(schema(name)):
        wanted = {"title", "description"} if "properties" in field else {"title", "description", "examples"}
        assert wanted <= field.keys(), path


@pytest.mark.parametrize("name", ALL)
def test_examples_and_defaults_are_what_their_schema_allows(name: str) -> None:
    root = schema(name)
    for path, field in fields(root):
        for value in [*field.get("examples", ()), *([field["default"]] if "default" in field else [])]:
            if isinstance(value, str) and "{{" in value:
                continue
            assert not list(faults_by({**field, "definitions": root.get("definitions", {})}, value)), f"{path}: {value}"


def test_there_is_a_payload_schema_for_each_handler() -> None:
    assert [f"handlers/{kind}" for kind in handler_types()] == ALL[3:]


def test_a_job_with_every_field_is_valid_and_uses_every_field() -> None:
    assert not list(faults(JOB, FULL_JOB))
    assert set(FULL_JOB["spec"]) == set(schema(JOB)["properties"]["spec"]["properties"])
    used = {name for trigger in FULL_JOB["spec"]["triggers"] for name in trigger}
    assert used == set(schema(JOB)["definitions"]["trigger"]["properties"])
    assert job_from(FULL_JOB).priority == 9


def test_published_defaults_are_those_the_program_uses() -> None:
    spec = schema(JOB)["properties"]["spec"]["properties"]

    assert spec["timeout"]["default"] == definition.DEFAULT_TIMEOUT
    assert spec["gracePeriod"]["default"] == definition.DEFAULT_GRACE
    assert spec["priority"]["default"] == definition.DEFAULT_PRIORITY
    assert spec["queue"]["default"] == definition.DEFAULT_QUEUE
    assert spec["poison"]["properties"]["maxLostLeases"]["default"] == definition.DEFAULT_MAX_LOST_LEASES
    retry = spec["retry"]["properties"]
    assert retry["maxAttempts"]["default"] == definition.DEFAULT_RETRY.max_attempts
    assert retry["backoff"]["default"] == definition.DEFAULT_RETRY.backoff
    assert parse_duration(retry["initial"]["default"]) == definition.DEFAULT_RETRY.initial_us
    assert parse_duration(retry["max"]["default"]) == definition.DEFAULT_RETRY.max_us
    assert retry["factor"]["default"] == definition.DEFAULT_RETRY.factor
    assert schema(JOB)["definitions"]["trigger"]["properties"]["name"]["default"] == definition.DEFAULT_TRIGGER
    trigger = schema(JOB)["definitions"]["trigger"]["properties"]
    assert trigger["timeZone"]["default"] == definition.DEFAULT_TIME_ZONE
    misfire = {name: field["default"] for name, field in trigger["misfire"]["properties"].items()}
    assert rules_from({"misfire": misfire}) == Rules()
    timing = definition.CronTiming("0 0 * * *", "UTC")
    assert (trigger["dst"]["properties"]["gap"]["default"], trigger["dayRule"]["default"]) == (
        timing.gap,
        timing.day_rule,
    )
    assert trigger["dst"]["properties"]["overlap"]["default"] == timing.overlap


def test_defaults_hold_the_fields_of_a_job_and_of_a_trigger_that_can_be_shared() -> None:
    """The schemas stand alone, as editors want them, so the fields are written twice."""
    job, shared = schema(JOB), schema("defaults")
    of_job = {**job["properties"]["spec"]["properties"]}
    of_job["handler"] = {name: value for name, value in of_job["handler"].items() if name != "required"}
    of_trigger = job["definitions"]["trigger"]["properties"]
    parts = shared["properties"]["spec"]["properties"]

    assert parts["job"]["properties"] == {n: of_job[n] for n in of_job if n not in {"triggers", "defaults"}}
    of_one = {"name", "cron", "every", "at", "anchor"}
    assert parts["trigger"]["properties"] == {n: of_trigger[n] for n in of_trigger if n not in of_one}
    for name in ("queue", "defaults"):
        assert schema(name)["definitions"].items() <= job["definitions"].items()


def test_fields_to_come_are_no_fields_yet() -> None:
    job = schema(JOB)
    shared = schema("defaults")["properties"]["spec"]["properties"]
    acting = {
        "metadata": job["properties"]["metadata"]["properties"],
        "spec": job["properties"]["spec"]["properties"],
        "spec.triggers[]": job["definitions"]["trigger"]["properties"],
        "spec.retry.on": job["properties"]["spec"]["properties"]["retry"]["properties"]["on"]["properties"],
        "spec.retry.neverOn": job["properties"]["spec"]["properties"]["retry"]["properties"]["neverOn"]["properties"],
        "spec.job": shared["job"]["properties"],
        "spec.trigger": shared["trigger"]["properties"],
        "spec.job.retry.on": shared["job"]["properties"]["retry"]["properties"]["on"]["properties"],
        "spec.job.retry.neverOn": shared["job"]["properties"]["retry"]["properties"]["neverOn"]["properties"],
        "spec.handler.with.env[]": schema("handlers/command")["properties"]["env"]["items"]["properties"],
    }

    assert acting.keys() == later.FIELDS.keys()
    assert all(not names & acting[place].keys() for place, names in later.FIELDS.items())
    assert not set(KINDS) & later.KINDS
    assert not later.HANDLERS & set(handler_types())


@pytest.mark.parametrize("text", ["1s", "99999d", "9999999h", "15m", "24h"])
def test_durations_of_the_schema_are_durations_of_the_model(text: str) -> None:
    assert not list(faults_by(schema(JOB)["definitions"]["duration"], text))
    assert parse_duration(text) < 2**62


@pytest.mark.parametrize("text", ["0s", "01s", "-1s", "1", "s", "1.5h", "1 h", "1w", "1S", "10000000s", "1s\n", "١s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert list(faults_by(schema(JOB)["definitions"]["duration"], text))


@pytest.mark.parametrize("name", ["a", "a.b-c", "0", "a" * 63])
def test_names_of_the_format_are_allowed(name: str) -> None:
    assert not list(faults_by(schema(JOB)["definitions"]["name"], name))


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", ".a", "a.", "a_b", "a b", "a" * 64, "a\n", "ä", "../a"])
def test_other_names_are_refused(name: str) -> None:
    assert list(faults_by(schema(JOB)["definitions"]["name"], name))


@pytest.mark.parametrize("name", ["a.csv", "reports/2026/a-b_c.csv", "0"])
def test_plain_names_inside_the_data_folder_are_allowed(name: str) -> None:
    assert not list(faults("handlers/csv-transform", {"input": name, "output": "x"}))


@pytest.mark.parametrize(
    "name", ["", "/a", "../a", "a/../b", "a/..", "./a", "a//b", "a/", ".ssh/id", "a\0b", "a\n", "~/a", "a/ b"]
)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    assert list(faults("handlers/csv-transform", {"input": name, "output": "x"}))


@pytest.mark.case("YML-07")
@pytest.mark.parametrize("value", [5.0, True, "5", None, 10**30])
def test_an_integer_is_an_integer(value: object) -> None:
    assert list(faults_by({"type": "integer", "maximum": 9}, value))


def test_the_worker_and_the_files_reserve_the_same_variables() -> None:
    assert payload.RESERVED == execute.RESERVED


def _patterns() -> list[str]:
    found: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, Mapping):
            if isinstance(node.get("pattern"), str):
                found.add(node["pattern"])
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for value in node:
                collect(value)

    for name in ALL:
        collect(schema(name))
    return sorted(found)


def _spent(pattern: str, text: str) -> float:
    """Seconds of processor time; the least of several is that of the work, not of a busy machine."""
    started = process_time()
    list(faults_by({"pattern": pattern}, text))
    return process_time() - started


@pytest.mark.parametrize("pattern", _patterns())
def test_our_patterns_take_linear_time(pattern: str) -> None:
    """security.md, rule 13: near misses of 64 KiB in at most 50 ms each."""
    assert pattern.startswith("^")
    assert pattern.endswith("$")
    for text in ("a" * 65_536 + "!", "a-" * 32_768, "a/" * 32_768, "1" * 65_536, "a." * 32_768 + "/"):
        assert min(_spent(pattern, text) for _ in range(5)) < 0.05


def test_the_schemas_in_the_repository_are_the_ones_in_use() -> None:
    on_disk = Path(__file__).parents[2] / "schemas" / "job.schema.json"

    assert json.loads(on_disk.read_text(encoding="utf-8")) == schema(JOB)
