"""The files one begins with, and what a shell needs to know."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest
import yaml


def test_init_writes_what_validates_and_never_writes_over_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert "wrote  here/jobs.d" in told("init", "here", "--ci", "github")
    monkeypatch.chdir(tmp_path / "here")
    assert "17 valid definitions" in told("validate")
    assert told("config", "show")
    assert yaml.safe_load(Path(".github/workflows/definitions.yaml").read_text())["jobs"]
    assert not Path(".reconciler").exists()
    Path("reconciler.yaml").write_text("store: {}")
    shutil.rmtree("jobs.d/reports")
    assert "kept   jobs.d" in told("init", "--ci", "gitlab")
    assert Path("reconciler.yaml").read_text() == "store: {}"
    assert not Path("jobs.d/reports").exists()
    assert yaml.safe_load(Path("definitions.gitlab-ci.yml").read_text())["definitions"]["script"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_completion_for_each_shell(shell: str, told: Callable[..., str]) -> None:
    assert "_RECONCILER_COMPLETE" in told("completion", shell)


def test_completion_offers_commands_without_loading_them(tmp_path: Path) -> None:
    asked = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "reconciler"],
        env={**os.environ, "COMP_WORDS": "reconciler st", "COMP_CWORD": "1", "_RECONCILER_COMPLETE": "bash_complete"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert asked.stdout.split() == ["plain,status"]
    assert "sqlalchemy" not in asked.stderr


def test_help_comes_at_once(tmp_path: Path) -> None:
    """The bar of the product: `--help` at most 0.15 s above an interpreter that does nothing."""

    def quickest(*arguments: str) -> float:
        taken = []
        for _ in range(5):
            started = perf_counter()
            subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, timeout=30, check=True)
            taken.append(perf_counter() - started)
        return min(taken)

    assert quickest("-m", "reconciler", "--help") - quickest("-c", "pass") <= 0.15
