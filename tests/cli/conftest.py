"""An installation without processes, and someone at its command line."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli import run
from tests.cli.cast import Shown
from tests.reconcile.cast import document

Ask = Callable[..., Any]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command line that succeeds; give what it prints."""

    def ask(*line: str, code: int = 0) -> str:
        capsys.readouterr()
        ended = run(list(line))
        out, err = capsys.readouterr()
        assert ended == code, out + err
        return out + err

    return ask


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_url: str, told: Callable[..., str]) -> Path:
    """Two jobs and a queue, applied, in a store of each kind that `reconciler.yaml` names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reconciler.yaml").write_text(yaml.safe_dump({"store": {"url": store_url}}))
    (tmp_path / "jobs.d").mkdir()
    (tmp_path / "jobs.d" / "report.yaml").write_text(
        document("report", owner="reporting@northstar.example", queue="reports", triggers=[{"every": "1h"}])
    )
    queue = {"apiVersion": "reconciler/v1", "kind": "Queue", "metadata": {"name": "reports"}, "spec": {"max": 2}}
    (tmp_path / "jobs.d" / "queues.yaml").write_text(yaml.safe_dump(queue))
    (tmp_path / "jobs.d" / "still.yaml").write_text(document("still", suspend=True, triggers=[{"every": "1h"}]))
    told("db", "upgrade")
    told("reconcile")
    return tmp_path


@pytest.fixture
def asked(home: Path, told: Callable[..., str]) -> Ask:
    """Give the JSON of a command."""

    def ask(*line: str, code: int = 0) -> Any:
        answer = json.loads(told(*line, "-o", "json", code=code))
        assert answer["formatVersion"] == "1.0"
        return answer

    return ask


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a file, a process without variables."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RECONCILER_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """Give what `config show` says, by key."""

    def ask(*arguments: str) -> dict[str, dict[str, Any]]:
        assert run(["config", "show", "--origin", "-o", "json", *arguments]) == 0, capsys.readouterr().err
        told = json.loads(capsys.readouterr().out)
        assert told["formatVersion"] == "1.0"
        return {item["key"]: item for item in told["items"]}

    return ask
