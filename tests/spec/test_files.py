import os
from pathlib import Path

import pytest

from reconciler.spec import files
from reconciler.spec.files import Scan, SourceUnavailableError, scan, single
from reconciler.spec.source import Limits

LIMITS = Limits()


def paths(found: Scan) -> list[str]:
    return [content.path for content in found.contents]


def ignored(found: Scan) -> dict[str, str]:
    return {each.path: each.why for each in found.ignored}


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n", encoding="utf-8")


@pytest.mark.case("GIT-06")
def test_editors_leftovers_are_ignored_and_listed(tmp_path: Path) -> None:
    taken = ["backup.yaml", "example.com-backup.yaml", "report.v2.yml"]
    left = [
        ".backup.yaml.swp",
        "backup.yaml~",
        "backup.yaml.bak",
        "#backup.yaml#",
        "4913",
        "backup.yaml.tmp",
        "README.md",
    ]
    write(tmp_path, *taken, *left, ".git/config.yaml", ".hidden.yaml")

    found = scan(tmp_path, LIMITS)

    assert paths(found) == taken
    assert set(ignored(found)) == {*left, ".git", ".hidden.yaml"}
    assert not found.problems
    assert found.complete


def test_files_come_from_any_depth_in_the_order_of_their_paths(tmp_path: Path) -> None:
    write(tmp_path, "z.yaml", "a/b/c/x.yml", "a/a.yaml", "a.yaml")

    assert paths(scan(tmp_path, LIMITS)) == ["a.yaml", "a/a.yaml", "a/b/c/x.yml", "z.yaml"]


def test_contents_are_hashed_not_dated(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml")
    before = scan(tmp_path, LIMITS)
    os.utime(tmp_path / "a.yaml", (0, 0))

    after = scan(tmp_path, LIMITS)

    assert [content.sha256 for content in after.contents] == [content.sha256 for content in before.contents]


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    """`job.yaml -> ..data/job.yaml`, `..data -> ..2026_01_01`: the swap of a mounted volume."""
    write(tmp_path, "..2026_01_01/job.yaml", "..2026_01_01/more/other.yaml")
    (tmp_path / "..data").symlink_to("..2026_01_01")
    (tmp_path / "job.yaml").symlink_to("..data/job.yaml")
    (tmp_path / "more").symlink_to("..data/more")

    found = scan(tmp_path, LIMITS)

    assert paths(found) == ["job.yaml", "more/other.yaml"]
    assert found.contents[0].content == b"# ..2026_01_01/job.yaml\n"
    assert not found.problems


def test_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    write(tmp_path, "revisions/abc/job.yaml")
    (tmp_path / "current").symlink_to("revisions/abc")

    assert paths(scan(tmp_path / "current", LIMITS)) == ["job.yaml"]


def test_a_link_to_what_is_read_anyway_is_ignored(tmp_path: Path) -> None:
    write(tmp_path, "real/job.yaml")
    (tmp_path / "copy.yaml").symlink_to("real/job.yaml")
    (tmp_path / "again").symlink_to("real")
    (tmp_path / "real" / "up").symlink_to("..")
    (tmp_path / "absolute.yaml").symlink_to(tmp_path / "real" / "job.yaml")

    found = scan(tmp_path, LIMITS)

    assert paths(found) == ["real/job.yaml"]
    assert set(ignored(found)) == {"copy.yaml", "again", "real/up", "absolute.yaml"}
    assert not found.problems


def test_a_link_to_a_file_of_another_name_is_read_under_its_own(tmp_path: Path) -> None:
    write(tmp_path, "job.yaml.v2")
    (tmp_path / "job.yaml").symlink_to("job.yaml.v2")

    assert paths(scan(tmp_path, LIMITS)) == ["job.yaml"]


def test_hidden_folders_that_link_to_themselves_end(tmp_path: Path) -> None:
    write(tmp_path, ".store/job.yaml")
    (tmp_path / "jobs").symlink_to(".store")
    (tmp_path / ".store" / "again").symlink_to("../.store")

    assert paths(scan(tmp_path, LIMITS)) == ["jobs/job.yaml"]


def test_links_that_leave_make_the_tree_incomplete(tmp_path: Path) -> None:
    write(tmp_path, "jobs/a.yaml", "secret.yaml")
    (tmp_path / "jobs" / "out.yaml").symlink_to("../secret.yaml")
    (tmp_path / "jobs" / "notes.txt").symlink_to("/etc/hostname")

    found = scan(tmp_path / "jobs", LIMITS)

    assert paths(found) == ["a.yaml"]
    assert [problem.rule for problem in found.problems] == ["file.link"]
    assert not found.complete


@pytest.mark.parametrize("name", ["team", "team.d", "etl.v2", "jobs.2026", "team.D"])
@pytest.mark.parametrize("target", [".data/away", "/away"])
def test_a_bad_link_that_may_be_a_folder_makes_the_tree_incomplete(name: str, target: str, tmp_path: Path) -> None:
    """G5: what cannot be read is not the same as gone, whatever the link is called."""
    (tmp_path / name).symlink_to(target)

    found = scan(tmp_path, LIMITS)

    assert [problem.rule for problem in found.problems] == ["file.link"]
    assert not found.complete


@pytest.mark.parametrize("name", ["README.md", "notes.TXT", "rows.csv", ".#job.yaml", "..data", ".team.d"])
def test_a_bad_link_that_declares_nothing_is_ignored(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("away")

    found = scan(tmp_path, LIMITS)

    assert [each.path for each in found.ignored] == [name]
    assert found.complete


def test_a_fifo_does_not_make_us_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")

    found = scan(tmp_path, LIMITS)

    assert [problem.rule for problem in found.problems] == ["file.kind"]
    assert not found.complete


@pytest.mark.case("GIT-01")
def test_a_missing_directory_is_unavailable_and_an_empty_one_is_not(tmp_path: Path) -> None:
    assert paths(scan(tmp_path, LIMITS)) == []
    with pytest.raises(SourceUnavailableError, match="no such file"):
        scan(tmp_path / "missing", LIMITS)
    write(tmp_path, "file.yaml")
    with pytest.raises(SourceUnavailableError, match="not a directory"):
        scan(tmp_path / "file.yaml", LIMITS)


@pytest.mark.case("GIT-01")
def test_a_directory_that_cannot_be_listed_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)

    with pytest.raises(SourceUnavailableError, match="permission denied"):
        scan(tmp_path, LIMITS)


def test_a_folder_inside_that_cannot_be_listed_makes_the_tree_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.yaml", "closed/b.yaml")
    listdir, calls = os.listdir, iter([True, False])

    def refuse(descriptor: int) -> list[str]:
        if next(calls):
            return listdir(descriptor)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    found = scan(tmp_path, LIMITS)

    assert paths(found) == ["a.yaml"]
    assert [str(problem.place) for problem in found.problems] == [f"{tmp_path}/closed:1:1"]
    assert not found.complete


def test_a_file_that_vanishes_while_we_read_makes_the_tree_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.yaml", "b.yaml")
    monkeypatch.setattr(os, "listdir", lambda _descriptor: ["a.yaml", "b.yaml", "gone.yaml"])

    found = scan(tmp_path, LIMITS)

    assert paths(found) == ["a.yaml", "b.yaml"]
    assert [problem.rule for problem in found.problems] == ["file.unreadable"]
    assert not found.complete


def test_a_named_file_is_read_whatever_its_suffix(tmp_path: Path) -> None:
    write(tmp_path, "job.txt")

    assert single(tmp_path / "job.txt", LIMITS).contents[0].content == b"# job.txt\n"
    with pytest.raises(SourceUnavailableError):
        single(tmp_path, LIMITS)
    with pytest.raises(SourceUnavailableError):
        single(tmp_path / "missing.yaml", LIMITS)


def test_names_are_shown_without_their_power(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m.bak").write_text("", encoding="utf-8")

    assert list(ignored(scan(tmp_path, LIMITS))) == ["a\\x1b[31m.bak"]
    assert files.shown("a\nb") == "a\\nb"
