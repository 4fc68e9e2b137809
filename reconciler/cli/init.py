"""`reconciler init`: example files to begin with. It writes files and nothing else, and never over one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Final

import click

from reconciler.errors import UsageError

_MODELINE: Final = "# yaml-language-server"
_GITHUB: Final = """\
# Says in each pull request what its definitions would change. It needs no store and no secret.
name: definitions
on:
  pull_request:
    paths: [jobs.d/**, reconciler.yaml]
permissions: {contents: read}
jobs:
  plan:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
        with: {fetch-depth: 0, persist-credentials: false}
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      - run: pip install reconciler-scheduler
      - run: reconciler validate
      - run: reconcile --dry-run --against "origin/$BASE"
        env: {BASE: "${{ github.base_ref }}"}
"""
_GITLAB: Final = """\
# Include it from .gitlab-ci.yml. It needs no store and no secret.
definitions:
  image: python:3.12-slim
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
      changes: [jobs.d/**/*, reconciler.yaml]
  variables: {GIT_DEPTH: "0"}
  script:
    - apt-get update && apt-get install --yes --no-install-recommends git
    - pip install reconciler-scheduler
    - reconciler validate
    - reconcile --dry-run --against "origin/$CI_MERGE_REQUEST_TARGET_BRANCH_NAME"
"""
_CI: Final = {
    "github": (Path(".github/workflows/definitions.yaml"), _GITHUB),
    "gitlab": (Path("definitions.gitlab-ci.yml"), _GITLAB),
}
_NEXT: Final = """\

try next:
  reconciler validate            check the definitions
  reconcile --dry-run            what would applying them do?
  reconciler dev                 run all of it on this machine
"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option("--ci", type=click.Choice(sorted(_CI)), default=None, help="Write a plan for pull requests, too.")
def command(folder: Path, ci: str | None) -> None:
    """Write example definitions (jobs.d) and a commented reconciler.yaml into FOLDER (default: this one).

    \b
    Examples:
      reconciler init
      reconciler init schedules --ci github
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path, write in _files(folder, ci):
        if path.exists():
            click.echo(f"kept   {path}: it is there already")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
        click.echo(f"wrote  {path}")
    click.echo(_NEXT, nl=False)


def write_examples(path: Path) -> None:
    """Write the example definitions to a folder that does not exist yet."""
    source = _shipped("jobs.d")
    if not source.is_dir():
        raise UsageError(f"there is no {path}: name the folder that holds your definitions")
    shutil.copytree(source, path)


def _files(folder: Path, ci: str | None) -> Iterator[tuple[Path, Callable[[Path], object]]]:
    yield folder / "jobs.d", write_examples
    yield folder / "reconciler.yaml", _write_settings
    if ci is not None:
        file, text = _CI[ci]
        yield folder / file, lambda path: path.write_text(text, encoding="utf-8")


def _write_settings(path: Path) -> None:
    """Write the commented example, less the line that leads an editor to the schema beside it."""
    lines = _shipped("reconciler.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = lines[2:] if lines[0].startswith(_MODELINE) else lines
    path.write_text("".join(kept), encoding="utf-8")


def _shipped(name: str) -> Path:
    """Give an example as the wheel carries it, or as it lies in the repository."""
    packaged = Path(str(resources.files("reconciler") / "_examples" / name))
    repository = Path(__file__).parents[2]
    return packaged if packaged.exists() else repository / (name if name == "jobs.d" else f"examples/{name}")
