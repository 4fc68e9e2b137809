"""Settings: what holds when several say something, and what is refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from reconciler.cli import run
from reconciler.cli.configfile import LATER
from reconciler.cli.keys import FLAGS, held_in_file, keys, variable_of
from reconciler.cli.relations import ADDRESSES
from reconciler.config import Config, values_of
from reconciler.model.duration import parse_duration
from reconciler.model.lease import Timings
from reconciler.spec.schemas import CONFIG_FILE, faults, faults_by, schema
from reconciler.spec.source import Limits
from tests.cli.cast import TOKEN, Shown, write
from tests.spec.test_revision import blob_file, commit, git
from tests.spec.test_schemas import fields

pytestmark = pytest.mark.usefixtures("alone")
REPOSITORY = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
OF_FILES = [key for key in keys() if held_in_file(key)]
SETTABLE = [key for key in keys() if key not in OF_FILES]
WRITES = os.environ.get("RECONCILER_GOLDEN") == "write"
TEXTS = {"sources": "platform=a.d,reports=b.d"}


def test_without_a_file_everything_is_the_default(shown: Shown) -> None:
    assert {item["origin"] for item in shown().values()} == {"default"}
    assert list(shown()) == list(keys())


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("timings:\n  lease: 60s\n  rescan: 5m\n")
    monkeypatch.setenv("RECONCILER_TIMINGS_LEASE", "90s")

    told = shown()

    assert (told["timings.lease"]["value"], told["timings.lease"]["origin"]) == ("90s", "RECONCILER_TIMINGS_LEASE")
    assert (told["timings.rescan"]["value"], told["timings.rescan"]["origin"]) == ("5m", "reconciler.yaml:3:11")
    assert (told["timings.heartbeat"]["value"], told["timings.heartbeat"]["origin"]) == ("5s", "default")


def test_a_flag_wins_over_the_environment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_STORE", "sqlite:///of-the-environment.db")

    assert run(["get", "jobs", "--store", "sqlite:///of-the-flag.db"]) == 4
    assert "of-the-flag.db" in capsys.readouterr().err
    assert run(["get", "jobs"]) == 4
    assert "of-the-environment.db" in capsys.readouterr().err


@pytest.mark.parametrize("key", SETTABLE)
def test_every_key_has_a_variable_that_acts(key: str, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    example = keys()[key]["examples"][0]
    text = TEXTS.get(key) or (",".join(example) if isinstance(example, list) else str(example))
    monkeypatch.setenv(variable_of(key), text)
    if key in ADDRESSES:
        monkeypatch.setenv("RECONCILER_METRICS_TOKEN", TOKEN)

    told = shown()[key]

    assert told["origin"] == told["variable"] == variable_of(key)
    assert told["value"] != values_of(Config())[key]


@pytest.mark.parametrize("key", SETTABLE)
def test_every_key_acts_in_the_file(key: str, shown: Shown) -> None:
    group, _, name = key.partition(".")
    example = keys()[key]["examples"][0]
    write(json.dumps({group: {name: example, **({"token": TOKEN} if key in ADDRESSES else {})} if name else example}))

    assert shown()[key]["origin"].startswith("reconciler.yaml:1:")


def test_another_file_is_read_when_it_is_named_and_its_paths_begin_at_its_folder(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "{store: {url: 'sqlite:///s.db'}, sources: [{name: a, path: jobs}], node: {data: data}}"
    write(text, "etc/settings.yaml")
    expected = {
        "store.url": "sqlite:///etc/s.db",
        "sources": [{"name": "a", "path": "etc/jobs"}],
        "node.data": "etc/data",
    }

    told = shown("--config", "etc/settings.yaml")
    assert {key: told[key]["value"] for key in expected} == expected
    monkeypatch.setenv("RECONCILER_CONFIG", "etc/settings.yaml")
    assert {key: shown()[key]["value"] for key in expected} == expected


@pytest.mark.parametrize("name", ["reconciler", "relations", "secrets", "broken"])
def test_a_file_that_is_wrong_is_reported_whole_as_definitions_are(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write((GOLDEN / f"{name}.yaml").read_text())

    assert run(["config", "show"]) == 64
    told = capsys.readouterr().err
    stored = GOLDEN / f"{name}.txt"
    if WRITES:
        stored.write_text(told)
    assert told == stored.read_text()
    assert "hunter2" not in told


@pytest.mark.parametrize("line", [["validate"], ["reconcile", "--dry-run"], ["serve"], ["worker"], ["get", "jobs"]])
def test_every_command_refuses_a_wrong_file(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write("timings: {leese: 30s}")

    assert run(line) == 64
    assert "reconciler.yaml:1:11" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "yaml.syntax"),
        ("[]", "no mapping of settings"),
        ("store: {}\n---\nstore: {}\n", "reconciler.yaml:3:1"),
        ("timings: {lease: 5s}", "(timings.lease from reconciler.yaml:1:18)"),
        ("sources: [{name: a, path: x}, {name: a, path: y}]", "two sources have the name 'a'"),
        ("sources: [{name: a, path: x}, {name: b, path: x}]", "two sources have the path"),
        ("limits: {fileBytes: 2048, treeBytes: 1024}", "limits.fileBytes from reconciler.yaml:1:21"),
        ("store: {urlFile: gone}", "gone cannot be read: No such file or directory\n --> reconciler.yaml:1:18"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(text: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(text)

    assert run(["config", "show"]) == 64
    assert says in capsys.readouterr().err


def test_an_option_may_mend_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    write("timings: {heartbeat: 20s}")
    no_store = ["--store", "sqlite:///gone.db"]

    assert run(["worker"]) == 64
    assert "reconciler.yaml:1:22" in capsys.readouterr().err
    assert run(["worker", "--lease", "60s", *no_store]) == 4
    assert run(["get", "jobs"]) == 64
    assert run(["worker", "--lease", "40s", *no_store]) == 64
    assert "timings.lease from --lease, timings.heartbeat from reconciler.yaml:1:22" in capsys.readouterr().err


def test_an_open_address_without_a_token_stops_only_whoever_would_open_it(capsys: pytest.CaptureFixture[str]) -> None:
    write("metrics: {serve: '0.0.0.0:5018'}")
    Path("jobs.d").mkdir()

    assert run(["validate"]) == 0
    assert run(["worker", "--store", "sqlite:///gone.db"]) == 4
    for line in (["serve"], ["config", "show"]):
        capsys.readouterr()
        assert run(line) == 64
        assert "reconciler.yaml:1:18" in capsys.readouterr().err


def test_what_is_shown_as_yaml_is_a_file_that_says_the_same(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    write("sqlite:///s.db\n", "url")
    write("{store: {urlFile: url}, timings: {leaderTtl: 20s}, worker: {allow: [echo]}}")
    before = {key: item["value"] for key, item in shown().items()}
    assert run(["config", "show", "-o", "yaml"]) == 0
    write(capsys.readouterr().out)

    assert {key: item["value"] for key, item in shown().items()} == before


def test_commands_take_path_and_name_of_the_source_from_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    write("sources: [{name: reports, path: a.d}, {name: platform, path: b.d}]")
    for folder in ("a.d", "b.d"):
        Path(folder).mkdir()

    assert run(["validate"]) == 0
    assert run(["reconcile", "--dry-run"]) == 64
    assert "name one with --source" in capsys.readouterr().err
    assert run(["reconcile", "--dry-run", "--source", "nobody"]) == 64
    assert run(["reconcile", "--dry-run", "--source", "reports", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["tree"] == "a.d"
    assert run(["reconcile", "--dry-run", "b.d", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == "platform"


@pytest.mark.parametrize(("percent", "code"), [(100, 0), (20, 3), (1, 3)])
def test_the_deletion_guard_acts_in_the_dry_run_against_a_folder(percent: int, code: int) -> None:
    """G10: what the dry run says without a store is what applying would say."""
    job = "{apiVersion: reconciler/v1, kind: Job, metadata: {name: %s}, spec: {handler: {type: slow}}}"
    for name in "abcde":
        write(job % name, f"before.d/{name}.yaml")
    for name in "abc":
        write(job % name, f"jobs.d/{name}.yaml")
    write(f"guard: {{maxDeletionPercent: {percent}}}")

    assert run(["reconcile", "--dry-run", "--against", "before.d"]) == code


def test_a_revision_that_git_does_not_have_in_full_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write("{apiVersion: reconciler/v1, kind: Job, metadata: {name: a}, spec: {handler: {type: slow}}}", "jobs.d/a.yaml")
    git(Path(), "init", "--quiet")
    commit(Path(), "first")
    blob_file(Path(), "HEAD:jobs.d/a.yaml").unlink()

    assert run(["reconcile", "--dry-run", "--against", "HEAD"]) == 3
    assert "git fetch" in capsys.readouterr().err


def test_a_default_time_zone_acts_in_the_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    job = "{apiVersion: reconciler/v1, kind: Job, metadata: {name: a}, spec: {handler: {type: slow}, triggers: [%s]}}"
    write(job % "{cron: 30 7 * * *}", "jobs.d/a.yaml")
    line = ["reconcile", "--dry-run", "--now", "2026-01-01T00:00:00Z"]

    assert run(line) == 0
    assert "next 2026-01-01T07:30:00Z" in capsys.readouterr().out
    write("schedule: {defaultTimeZone: Europe/Berlin}")
    assert run(line) == 0
    assert "next 2026-01-01T06:30:00Z" in capsys.readouterr().out
    write(job % '{at: "2026-03-29T02:30"}', "jobs.d/a.yaml")
    assert run(["validate"]) == 1
    assert "does not exist in Europe/Berlin" in capsys.readouterr().out


def test_the_schema_is_valid_and_explains_every_key() -> None:
    Draft7Validator.check_schema(schema(CONFIG_FILE))
    for path, field in fields(schema(CONFIG_FILE)):
        wanted = {"title", "description"} if "properties" in field else {"title", "description", "examples"}
        assert wanted <= field.keys(), path
        for value in [*field.get("examples", ()), *([field["default"]] if "default" in field else [])]:
            definition = {**field, "definitions": schema(CONFIG_FILE)["definitions"]}
            assert not list(faults_by(definition, value)), f"{path}: {value}"


def test_published_defaults_are_those_the_program_uses() -> None:
    held = values_of(Config())
    for key, item in keys().items():
        if "default" in item:
            default = item["default"]
            is_duration = item.get("$ref", "").endswith("/duration")
            value = parse_duration(default) / 1_000_000 if is_duration else default
            assert (list(held[key]) if isinstance(held[key], tuple) else held[key]) == value, key
        elif key not in OF_FILES:
            assert held[key] is None, key
    timings, limits = Config().timings, Config().limits
    assert Timings(timings.lease_seconds, timings.heartbeat_seconds, timings.leader_ttl_seconds) == Timings()
    assert Limits(limits.file_bytes, limits.tree_bytes, limits.tree_files, nodes=limits.values_per_file) == Limits()


def test_keys_to_come_are_no_keys_yet() -> None:
    for place, names in LATER.items():
        for name in names:
            document: Any = {name: {}}
            if place.endswith("[]"):
                document = {place[:-2]: [{"name": "a", "path": "x", **document}]}
            elif place:
                document = {place: document}
            assert [fault.keyword for fault in faults(CONFIG_FILE, document)] == ["additionalProperties"]


def test_the_example_is_valid_and_names_every_key(shown: Shown) -> None:
    text = (REPOSITORY / "examples" / "reconciler.yaml").read_text()
    write(text)

    assert [key for key, item in shown().items() if item["origin"] != "default"] == ["sources"]
    for key in keys():
        assert f"{key.rpartition('.')[2]}:" in text, key


def test_the_page_on_configuration_lists_every_key_its_variable_flag_and_default() -> None:
    page = (REPOSITORY / "docs" / "configuration.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}

    assert list(rows) == list(keys())
    for key, item in keys().items():
        assert f"`{variable_of(key)}`" in rows[key]
        assert f"`{FLAGS[key]}`" in rows[key] if key in FLAGS else True
        if isinstance(item.get("default"), str | int):
            assert f"`{item['default']}`" in rows[key], key
