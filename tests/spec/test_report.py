import json
from pathlib import Path

import pytest

from reconciler.errors import Place, Problem, Severity
from reconciler.spec.load import load_tree
from reconciler.spec.report import as_json, as_text, frame, is_valid, one_line
from reconciler.spec.schemas import JOB, schema

PROBLEM = Problem(
    "schema.unknown-field",
    Place("jobs.d/exports/partner-export.yaml", 14, 3, 7),
    "spec.priorty",
    'unknown field "priorty"',
    'Did you mean "priority"?',
    allowed=tuple(sorted(schema(JOB)["properties"]["spec"]["properties"])),
)
TEXT = "\n" * 13 + "  priorty: 7\n"


def test_a_problem_is_shown_as_the_interface_says() -> None:
    assert frame(PROBLEM, TEXT).splitlines()[:5] == [
        'error[schema.unknown-field]: unknown field "priorty"',
        "  --> jobs.d/exports/partner-export.yaml:14:3",
        "   |",
        "14 |   priorty: 7",
        '   |   ^^^^^^^ did you mean "priority"?',
    ]
    assert frame(PROBLEM, TEXT).splitlines()[5].startswith("   = allowed here: defaults, description, grace")


def test_a_problem_fits_into_one_line() -> None:
    told = one_line(Problem("a.b", Place("f.yaml", 3, 3), "schedule.cron", "minute 61 is outside 0-59", "write 0-59"))

    assert told == "f.yaml:3:3: schedule.cron: minute 61 is outside 0-59. Write 0-59."
    assert one_line(PROBLEM).endswith('. Did you mean "priority"?')


def test_what_people_committed_cannot_steer_a_terminal() -> None:
    problem = Problem("a.b", Place("f", 1, 2), "", "bad \x1b[31m value", "Fix \u202e it")

    shown = frame(problem, "a\x1b]0;owned\x07\u202eb\tc\n")

    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\t" not in shown
    assert "1 | a·]0;owned··b c" in shown


def test_a_long_line_is_cut_around_the_place() -> None:
    problem = Problem("a.b", Place("f", 1, 5_001, 3), "", "here", "Fix it")

    _, _, _, line, caret = frame(problem, "x" * 5_000 + "BAD" + "y" * 5_000).splitlines()

    assert len(line) < 110
    assert line[caret.index("^") :].startswith("BAD")
    assert caret.count("^") == 3


def test_a_place_beyond_the_text_is_shown_without_a_line() -> None:
    assert (
        frame(Problem("a.b", Place("f", 9, 1), "", "here", "Fix it"), "one line")
        == "error[a.b]: here\n --> f:9:1\n  = fix it"
    )


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "jobs.d"
    folder.mkdir()
    good = "apiVersion: reconciler/v1\nkind: Job\nmetadata: {name: good}\nspec: {handler: {type: slow}}\n"
    (folder / "good.yaml").write_text(good, encoding="utf-8")
    (folder / "README.md").write_text("", encoding="utf-8")
    return folder


def test_a_valid_tree_is_one_line(jobs: Path) -> None:
    assert as_text(load_tree("jobs.d")) == "1 valid definition in 1 file"


@pytest.mark.case("GIT-06")
def test_verbose_lists_what_was_read_and_what_was_not(jobs: Path) -> None:
    assert as_text(load_tree("jobs.d"), verbose=True).splitlines() == [
        "read     good.yaml",
        "ignored  README.md: does not end in .yaml, .yml or .ics",
        "1 valid definition in 1 file",
    ]


def test_json_carries_its_version_and_every_problem(jobs: Path) -> None:
    (jobs / "bad.yaml").write_text("kind: Jobb\n", encoding="utf-8")

    told = json.loads(as_json(load_tree("jobs.d")))

    assert told["formatVersion"] == "1.0"
    assert (told["valid"], told["complete"]) == (False, False)
    assert told["definitions"] == [{"name": "good", "kind": "Job", "file": "jobs.d/good.yaml", "line": 1}]
    assert [file["path"] for file in told["files"]] == ["bad.yaml", "good.yaml"]
    assert told["ignored"] == [{"path": "README.md", "why": "does not end in .yaml, .yml or .ics"}]
    assert told["problems"] == [
        {
            "rule": "schema.unknown-kind",
            "severity": "error",
            "file": "jobs.d/bad.yaml",
            "line": 1,
            "column": 7,
            "length": 4,
            "where": "kind",
            "what": 'unknown kind "Jobb"',
            "mend": 'Did you mean "Job"?',
        }
    ]


def test_warnings_are_errors_only_when_strict(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.spec.load.HAS_LIBYAML", False)
    tree = load_tree("jobs.d")

    assert [problem.severity for problem in tree.problems] == [Severity.WARNING]
    assert is_valid(tree)
    assert not is_valid(tree, strict=True)
