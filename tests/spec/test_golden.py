"""Message and place of every refusal, against stored reports."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.model.tree import Tree
from reconciler.spec import load
from reconciler.spec.load import load_paths, load_tree
from reconciler.spec.report import as_text
from reconciler.spec.source import Limits
from tests.spec.golden import FILES, FOLDER, REPORTS, expected

VALID = "apiVersion: reconciler/v1\nkind: Job\nmetadata: {name: good}\nspec: {handler: {type: slow}}\n"
CODE = Path(load.__file__).parents[1]
RULE = re.compile(
    r'"((?:yaml|file|tree|schema|cron|zone|timing|trigger|parameter|payload|placeholder|name|secret|queue|calendar|defaults)\.[a-z-]+)"'
)
NOT_ABOUT_FILES = {"placeholder.size", "calendar.not-installed", "timing.clock-change"}


def groups() -> list[str]:
    """One report per file; the two files that share a name are read together."""
    return sorted({"names" if path.stem.startswith("names-") else path.stem for path in FILES.glob("*.yaml")})


@pytest.mark.case("YML-01")
@pytest.mark.case("YML-03")
@pytest.mark.case("YML-07")
@pytest.mark.case("CRON-04")
@pytest.mark.case("CRON-10")
@pytest.mark.case("CRON-14")
@pytest.mark.case("DST-15")
@pytest.mark.parametrize("group", groups())
def test_each_refusal_says_what_where_and_how_to_mend_it(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    paths = sorted(
        path.relative_to(FOLDER)
        for path in FILES.glob(f"{group}*")
        if path.stem in (group, *_pair(group)) or path.suffix == ".ics"
    )

    report = as_text(load_paths(paths))

    assert report == expected(group, report)


def _pair(group: str) -> tuple[str, ...]:
    return ("names-first", "names-second") if group == "names" else ()


def test_a_tree_with_all_of_them_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)

    report = as_text(load_tree("files"))

    assert report == expected("all-at-once", report)
    assert [each.key for each in load_tree("files").definitions] == [
        ("Calendar", "weekend"),
        ("Calendar", "closed-down"),
        ("Defaults", "defaults-good"),
        ("Queue", "queues-good"),
    ]


def _oversized(jobs: Path) -> None:
    (jobs / "long-text.yaml").write_text(f"kind: Job\nspec:\n  description: {'x' * 65_537}\n", encoding="utf-8")
    keys = "".join(f"  key{number}: x\n" for number in range(513))
    (jobs / "many-keys.yaml").write_text(f"metadata:\n{keys}", encoding="utf-8")
    (jobs / "large.yaml").write_text("#" * (256 * 1024 + 1), encoding="utf-8")


def _bad_entries(jobs: Path) -> None:
    (jobs.parent / "outside.yaml").write_text(VALID, encoding="utf-8")
    (jobs / "outside.yaml").symlink_to("../outside.yaml")
    (jobs / "absolute.yaml").symlink_to(jobs.parent / "outside.yaml")
    (jobs / "up").symlink_to("..")
    (jobs / "nowhere.yaml").symlink_to("missing.yaml")
    (jobs / "loop.yaml").symlink_to("loop.yaml")
    (jobs / "folder.yaml").symlink_to("/dev")
    (jobs / "bad\nname.yaml").write_text(VALID, encoding="utf-8")
    os.mkfifo(jobs / "pipe.yaml")
    deep = jobs.joinpath(*["d"] * 33)
    deep.mkdir(parents=True)
    (deep / "deep.yaml").write_text(VALID, encoding="utf-8")


def _unreadable(jobs: Path) -> None:
    (jobs / "gone.yaml").write_text(VALID, encoding="utf-8")


@pytest.mark.parametrize("make", [_oversized, _bad_entries])
def test_what_cannot_be_read_is_told_by_name(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = _tree(make, tmp_path, monkeypatch)
    report = as_text(tree)

    assert report == expected(make.__name__.removeprefix("_").replace("_", "-"), report)
    assert not tree.complete


def test_a_file_that_the_system_refuses_to_open_is_told_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def refusing(path: str | Path, *args: int, dir_fd: int | None = None) -> int:
        if str(path) == "gone.yaml":
            raise PermissionError(13, "Permission denied")
        return real_open(path, *args, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refusing)
    tree = _tree(_unreadable, tmp_path, monkeypatch)
    report = as_text(tree)

    assert report == expected("unreadable", report)
    assert not tree.complete


@pytest.mark.parametrize(
    ("name", "limits"), [("tree-files", Limits(tree_files=1)), ("tree-bytes", Limits(tree_bytes=100))]
)
def test_a_tree_that_is_too_large_is_told(
    name: str, limits: Limits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.d").mkdir()
    for number in range(3):
        (tmp_path / "jobs.d" / f"{number}.yaml").write_text(VALID.replace("good", f"good-{number}"), encoding="utf-8")

    report = as_text(load_tree("jobs.d", limits=limits))

    assert report == expected(name, report)


def test_a_parser_without_libyaml_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(load, "HAS_LIBYAML", False)
    (tmp_path / "good.yaml").write_text(VALID, encoding="utf-8")

    report = as_text(load_tree("."))

    assert report == expected("slow-parser", report)


def _tree(make: Callable[[Path], None], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    jobs = folder / "jobs.d"
    jobs.mkdir()
    make(jobs)
    monkeypatch.chdir(folder)
    return load_tree("jobs.d")


def test_every_rule_has_a_stored_report() -> None:
    floors = ("spec", "schedule", "model")
    rules = {
        rule
        for floor in floors
        for path in (CODE / floor).rglob("*.py")
        for rule in RULE.findall(path.read_text(encoding="utf-8"))
    }
    reported = {
        rule
        for path in REPORTS.glob("*.txt")
        for rule in re.findall(r"(?:error|warning)\[([a-z.-]+)\]", path.read_text(encoding="utf-8"))
    }

    assert rules - reported == NOT_ABOUT_FILES
    assert reported <= rules
