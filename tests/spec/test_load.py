import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.model.definition import Job
from reconciler.spec.load import load_paths, load_tree

JOB = """\
apiVersion: reconciler/v1
kind: Job
metadata:
  name: {name}
spec:
  handler: {{type: {handler}}}
  priority: {priority}
"""


def job(name: str, *, handler: str = "slow", priority: str = "5") -> str:
    return JOB.format(name=name, handler=handler, priority=priority)


def write(root: Path, **files: str) -> None:
    root.mkdir(exist_ok=True)
    for name, text in files.items():
        (root / f"{name}.yaml").write_text(text, encoding="utf-8")


def names(root: Path) -> list[str]:
    return [definition.declared.name for definition in load_tree(root).definitions]


@pytest.mark.case("GIT-03")
def test_broken_files_leave_the_good_ones_alone(tmp_path: Path) -> None:
    """Ten files: one with a syntax error, one with a schema error, one with an unknown handler."""
    good = {f"good{number}": job(f"good-{number}") for number in range(7)}
    bad = {
        "syntax": "kind: [\n",
        "range": job("bad-range", priority="99"),
        "handler": job("bad-handler", handler="nope"),
    }
    write(tmp_path, **good, **bad)

    tree = load_tree(tmp_path)

    assert [definition.declared.name for definition in tree.definitions] == [f"good-{number}" for number in range(7)]
    assert [problem.rule for problem in tree.problems] == ["schema.unknown-handler", "schema.range", "yaml.syntax"]
    assert set(tree.broken_names) == {("Job", "bad-range"), ("Job", "bad-handler")}
    assert not tree.complete
    assert set(tree.texts) == {f"{tmp_path}/{name}.yaml" for name in bad}


def test_a_broken_definition_with_a_name_leaves_the_tree_complete(tmp_path: Path) -> None:
    write(tmp_path, a=job("known", priority="99"))

    tree = load_tree(tmp_path)

    assert tree.complete
    assert set(tree.broken_names) == {("Job", "known")}


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: reconciler/v1\nkind: Job\nspec: {handler: {type: slow}}\n",
        job("Not-Possible"),
        job("7.0"),
        "- a\n- list\n",
        "a: &a [*a]\n",
    ],
)
def test_a_definition_without_a_possible_name_makes_the_tree_incomplete(text: str, tmp_path: Path) -> None:
    """Which stored definition it may be nobody can tell, so nothing may be pruned."""
    write(tmp_path, a=text, b=job("good"))

    tree = load_tree(tmp_path)

    assert not tree.complete
    assert [definition.declared.name for definition in tree.definitions] == ["good"]


def test_a_fault_of_the_text_makes_its_definition_broken(tmp_path: Path) -> None:
    write(tmp_path, a=job("twice") + "  priority: 7\n")

    tree = load_tree(tmp_path)

    assert [problem.rule for problem in tree.problems] == ["yaml.duplicate-key"]
    assert set(tree.broken_names) == {("Job", "twice")}
    assert tree.definitions == []


def test_one_name_in_two_files_is_refused_in_both(tmp_path: Path) -> None:
    """G9: the same id twice rejects both, naming both places."""
    write(tmp_path, a=job("same"), b=job("same"), c=job("other"))

    tree = load_tree(tmp_path)

    assert names(tmp_path) == ["other"]
    assert [str(problem.place) for problem in tree.problems] == [f"{tmp_path}/a.yaml:4:9", f"{tmp_path}/b.yaml:4:9"]
    assert f"{tmp_path}/b.yaml:4:9" in tree.problems[0].what
    assert set(tree.broken_names) == {("Job", "same")}


def test_several_documents_of_a_file_are_several_definitions(tmp_path: Path) -> None:
    write(tmp_path, a=f"# comment\n---\n{job('first')}---\n---\n{job('second')}")

    tree = load_tree(tmp_path)

    assert [(each.declared.name, each.place.line) for each in tree.definitions] == [("first", 3), ("second", 12)]
    assert tree.definitions[1].lines["spec.priority"] == 18


def test_where_a_definition_stands_does_not_change_what_it_is(tmp_path: Path) -> None:
    """G9: a move, a comment or another order of keys is no change."""
    write(tmp_path / "one", a=job("same"))
    spec = "spec: {priority: 5, handler: {type: slow}}"
    write(tmp_path / "two", b=f"# moved\nkind: Job\n{spec}\nmetadata: {{name: same}}\napiVersion: reconciler/v1\n")

    one, two = (load_tree(tmp_path / name).definitions[0] for name in ("one", "two"))

    assert one.declared.digest == two.declared.digest


def test_writing_a_default_out_is_a_change_of_what_is_declared(tmp_path: Path) -> None:
    """The digest is over the declared document without schema defaults, so an upgrade edits nobody (protocol.md)."""
    write(tmp_path / "one", a=job("same"))
    write(tmp_path / "two", a=job("same").replace("  priority: 5\n", ""))

    one, two = (load_tree(tmp_path / name).definitions[0].declared for name in ("one", "two"))

    assert isinstance(one, Job)
    assert isinstance(two, Job)
    assert one.priority == two.priority == 5
    assert one.digest != two.digest


def test_the_tree_is_the_same_however_often_it_is_read(tmp_path: Path) -> None:
    write(tmp_path, a=job("a"), b=job("b", priority="99"), c="kind: [\n")

    assert load_tree(tmp_path) == load_tree(tmp_path)


def test_an_empty_directory_declares_nothing_and_is_complete(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("nothing here\n", encoding="utf-8")

    tree = load_tree(tmp_path)

    assert (tree.definitions, tree.problems, tree.complete) == ([], [], True)


def test_files_and_folders_are_read_as_one_tree(tmp_path: Path) -> None:
    write(tmp_path / "jobs", a=job("a"))
    write(tmp_path, b=job("b"), c=job("a"))

    tree = load_paths([tmp_path / "jobs", tmp_path / "b.yaml", tmp_path / "c.yaml", tmp_path / "b.yaml"])

    assert [definition.declared.name for definition in tree.definitions] == ["b"]
    assert [problem.rule for problem in tree.problems] == ["name.duplicate", "name.duplicate"]


def test_a_file_that_is_named_several_times_counts_once(tmp_path: Path) -> None:
    write(tmp_path, a=job("a"))
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "out.yaml").symlink_to("/")

    once = load_paths([tmp_path])
    often = load_paths([tmp_path / "a.yaml", tmp_path, tmp_path])

    assert (len(often.files), len(often.ignored), len(often.problems)) == (1, 1, 1)
    assert len(once.problems) == 1


def test_validating_loads_neither_database_nor_logging(tmp_path: Path) -> None:
    write(tmp_path, a=job("a"))
    program = (
        "import sys\n"
        "from reconciler.spec.load import load_paths\n"
        "from reconciler.spec.report import as_text\n"
        "as_text(load_paths(sys.argv[1:]))\n"
        "heavy = {'sqlalchemy', 'alembic', 'psycopg', 'structlog', 'rich'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )

    assert done.stdout.strip() == "[]"
