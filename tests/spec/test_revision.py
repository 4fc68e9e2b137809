import subprocess
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import UsageError
from reconciler.spec.files import SourceUnavailableError
from reconciler.spec.load import load_revision, load_tree
from reconciler.spec.revision import RevisionUnreadableError

JOB = "apiVersion: reconciler/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{handler: {{type: slow}}}}\n"


def git(repository: Path, *arguments: str) -> str:
    identity = [
        "-c",
        "user.name=Northstar",
        "-c",
        "user.email=platform@northstar.example",
        "-c",
        "commit.gpgsign=false",
    ]
    done = subprocess.run(["git", *identity, *arguments], cwd=repository, capture_output=True, text=True, check=True)  # noqa: S607
    return done.stdout.strip()


def commit(repository: Path, message: str) -> None:
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", message)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit of two jobs in infra/jobs.d."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    jobs = tmp_path / "infra" / "jobs.d"
    (jobs / "team").mkdir(parents=True)
    (jobs / "a.yaml").write_text(JOB.format(name="a"), encoding="utf-8")
    (jobs / "team" / "b.yml").write_text(JOB.format(name="b"), encoding="utf-8")
    (jobs / "notes.md").write_text("notes\n", encoding="utf-8")
    (tmp_path / "other.yaml").write_text("not: ours\n", encoding="utf-8")
    commit(tmp_path, "first")
    return tmp_path


def test_a_revision_is_read_as_it_was_committed(repository: Path) -> None:
    jobs = repository / "infra" / "jobs.d"
    committed = load_tree(jobs)
    (jobs / "a.yaml").unlink()
    (jobs / "c.yaml").write_text(JOB.format(name="c"), encoding="utf-8")

    tree = load_revision(jobs, "HEAD")

    assert tree == committed
    assert [definition.declared.name for definition in tree.definitions] == ["a", "b"]
    assert [ignored.path for ignored in tree.ignored] == ["notes.md"]


@pytest.mark.parametrize("name", ["HEAD", "main", "HEAD~0", "v1", "v1^{commit}"])
def test_a_revision_goes_by_any_of_its_names(name: str, repository: Path) -> None:
    git(repository, "tag", "v1")

    assert len(load_revision(repository / "infra" / "jobs.d", name).definitions) == 2


def test_a_directory_that_is_gone_now_is_still_in_the_revision(repository: Path) -> None:
    git(repository, "rm", "-rq", "infra")
    commit(repository, "gone")

    assert len(load_revision(repository / "infra" / "jobs.d", "HEAD~1").definitions) == 2


def test_a_directory_that_was_not_there_yet_declares_nothing(repository: Path) -> None:
    (repository / "new.d").mkdir()

    assert load_revision(repository / "new.d", "HEAD").definitions == []


def blob_file(repository: Path, name: str) -> Path:
    """The file that holds an object of the repository."""
    sha = git(repository, "rev-parse", name)
    return repository / ".git" / "objects" / sha[:2] / sha[2:]


@pytest.mark.parametrize("name", ["HEAD^{tree}", "HEAD:infra", "HEAD:infra/jobs.d", "HEAD:infra/jobs.d/team"])
def test_a_revision_whose_trees_are_not_all_here_is_not_taken_for_an_empty_one(name: str, repository: Path) -> None:
    """G10: as in a partial clone; a change that deletes jobs must not look harmless."""
    blob_file(repository, name).unlink()

    with pytest.raises(RevisionUnreadableError, match="revision HEAD cannot be read: git: ") as raised:
        load_revision(repository / "infra" / "jobs.d", "HEAD")
    assert "git fetch" in raised.value.refusal


def test_a_revision_whose_files_are_not_all_here_is_refused(repository: Path) -> None:
    blob_file(repository, "HEAD:infra/jobs.d/a.yaml").unlink()

    with pytest.raises(RevisionUnreadableError, match=r"git: object [0-9a-f]+ is missing"):
        load_revision(repository / "infra" / "jobs.d", "HEAD")


def test_a_git_that_does_not_answer_is_not_an_empty_revision(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run

    def slow(command: list[str], **how: Any) -> Any:
        if "ls-tree" in command:
            raise subprocess.TimeoutExpired(command, 60)
        return run(command, **how)

    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(RevisionUnreadableError, match="did not answer"):
        load_revision(repository / "infra" / "jobs.d", "HEAD")


def test_a_path_that_was_a_file_is_no_empty_folder(repository: Path) -> None:
    git(repository, "rm", "-rq", "infra")
    (repository / "infra").write_text("no folder\n", encoding="utf-8")
    commit(repository, "a file")
    (repository / "infra").unlink()
    (repository / "infra" / "jobs.d").mkdir(parents=True)

    assert load_revision(repository / "infra" / "jobs.d", "HEAD").definitions == []
    with pytest.raises(RevisionUnreadableError, match="not a tree"):
        load_revision(repository / "infra", "HEAD")


def test_the_top_of_the_repository_can_be_the_source(repository: Path) -> None:
    assert [file.path for file in load_revision(repository, "HEAD").files] == [
        "infra/jobs.d/a.yaml",
        "infra/jobs.d/team/b.yml",
        "other.yaml",
    ]


def test_committed_links_follow_the_rules_of_those_on_disk(repository: Path) -> None:
    jobs = repository / "infra" / "jobs.d"
    (jobs / ".hidden").mkdir()
    (jobs / ".hidden" / "h.yaml").write_text(JOB.format(name="hidden"), encoding="utf-8")
    (jobs / "h.yaml").symlink_to(".hidden/h.yaml")
    (jobs / "again.yaml").symlink_to("a.yaml")
    (jobs / "out.yaml").symlink_to("../../other.yaml")
    (jobs / "nowhere.yaml").symlink_to("missing.yaml")
    commit(repository, "links")

    tree = load_revision(jobs, "HEAD")

    assert [definition.declared.name for definition in tree.definitions] == ["a", "hidden", "b"]
    assert [problem.place.file.rpartition("/")[2] for problem in tree.problems] == ["nowhere.yaml", "out.yaml"]
    assert not tree.complete
    assert (tree.definitions, tree.complete) == (load_tree(jobs).definitions, load_tree(jobs).complete)


@pytest.mark.parametrize("name", ["-h", "--output=x", "", "no-such-branch", "HEAD:infra", "a\nb"])
def test_what_is_no_revision_is_a_wrong_usage(name: str, repository: Path) -> None:
    with pytest.raises(UsageError):
        load_revision(repository / "infra" / "jobs.d", name)


def test_a_folder_outside_any_repository_has_no_revisions(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="git"):
        load_revision(tmp_path, "HEAD")


def test_attributes_of_the_repository_hide_nothing(repository: Path) -> None:
    """`git archive` would leave out what `.gitattributes` marks as export-ignore."""
    (repository / ".gitattributes").write_text("*.yaml export-ignore\n", encoding="utf-8")
    commit(repository, "attributes")

    assert len(load_revision(repository / "infra" / "jobs.d", "HEAD").definitions) == 2
