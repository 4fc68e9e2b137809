"""The wheel alone, in an empty virtual environment: what a user gets from `pip install`."""

import json
import os
import signal
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from reconciler.clock import SystemClock
from tests.worker.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

REPOSITORY = Path(__file__).parents[2]
BAR_SECONDS = 10.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    line = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)]
    subprocess.run(line, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bin_of(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment in which nothing but the wheel and what it needs is installed."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-q"]
    subprocess.run([*pip, str(wheel)], check=True, timeout=240, cwd=home)
    return home / "bin"


def run(bin_of: Path, *line: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    program = [str(bin_of / line[0]), *line[1:]]
    return subprocess.run(program, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_schemas_and_examples_are_in_the_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    for folder, inside in (("schemas", "reconciler/_schemas"), ("jobs.d", "reconciler/_examples/jobs.d")):
        files = [path.relative_to(REPOSITORY / folder) for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
        assert files
        assert {f"{inside}/{file}" for file in files} <= set(names)


def test_what_init_writes_is_valid_by_the_installed_commands_alone(bin_of: Path, tmp_path: Path) -> None:
    assert run(bin_of, "reconciler", "init", cwd=tmp_path).returncode == 0

    checked = run(bin_of, "reconciler", "validate", cwd=tmp_path)
    planned = run(bin_of, "reconcile", "--dry-run", cwd=tmp_path)

    assert (checked.returncode, planned.returncode) == (0, 0), checked.stderr + planned.stderr
    assert "no store" in planned.stdout + planned.stderr


def test_the_first_run_succeeds_within_ten_seconds_of_start_up(bin_of: Path, tmp_path: Path) -> None:
    clock = SystemClock()
    began_at = clock.elapsed()
    with (tmp_path / "dev.log").open("wb") as log:
        dev = subprocess.Popen([str(bin_of / "reconciler"), "dev"], cwd=tmp_path, stdout=log, stderr=log)
    try:
        until(lambda: "Succeeded" in (tmp_path / "dev.log").read_text(), seconds=BAR_SECONDS + 20)
        took = clock.elapsed() - began_at
        listed = run(bin_of, "reconciler", "runs", "list", "--state", "Succeeded", "-o", "json", cwd=tmp_path)
    finally:
        dev.send_signal(signal.SIGINT)
        dev.wait(40)

    assert took <= BAR_SECONDS
    assert json.loads(listed.stdout)["items"][-1]["definition"] == "sales-pulse"
