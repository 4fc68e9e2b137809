from pathlib import Path

import pytest

from reconciler.errors import UsageError
from reconciler.worker.allow import Allow, CannotRunError


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("northstar-report", "other"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    (folder / "alias").symlink_to(folder / "other")
    return folder


def test_nothing_is_admitted_unless_a_rule_says_so_and_the_refusal_prints_the_flag(programs: Path) -> None:
    with pytest.raises(CannotRunError) as refusal:
        Allow.parse([], str(programs)).resolve("northstar-report")

    assert str(refusal.value) == (
        "program 'northstar-report' is not allowed on this worker. "
        "To allow it, start the worker with --allow northstar-report"
    )


def test_the_refusal_names_what_a_person_started(programs: Path) -> None:
    with pytest.raises(CannotRunError, match="To allow it, start `reconciler dev` with --allow northstar-report"):
        Allow.parse([], str(programs), "`reconciler dev`").resolve("northstar-report")


@pytest.mark.parametrize("rule", ["northstar-report", "{bin}/northstar-report", "*"])
@pytest.mark.parametrize("program", ["northstar-report", "{bin}/northstar-report"])
def test_a_rule_by_name_by_path_or_for_all_admits_the_program_by_name_and_path(
    programs: Path, rule: str, program: str
) -> None:
    allow = Allow.parse([rule.format(bin=programs)], str(programs))

    assert allow.resolve(program.format(bin=programs)) == f"{programs}/northstar-report"


def test_a_name_does_not_admit_a_program_of_that_name_elsewhere(programs: Path, tmp_path: Path) -> None:
    impostor = tmp_path / "northstar-report"
    impostor.write_text("#!/bin/sh\n")
    impostor.chmod(0o755)

    with pytest.raises(CannotRunError, match="is not allowed"):
        Allow.parse(["northstar-report"], str(programs)).resolve(str(impostor))


def test_links_are_not_followed_so_one_name_of_a_multi_call_binary_admits_no_other(programs: Path) -> None:
    with pytest.raises(CannotRunError, match="is not allowed"):
        Allow.parse(["other"], str(programs)).resolve("alias")


def test_an_admitted_program_that_is_missing_is_named_with_the_path_that_was_searched(programs: Path) -> None:
    with pytest.raises(CannotRunError, match=f"'missing' does not exist on the worker's PATH \\({programs}\\)"):
        Allow.parse(["missing"], str(programs)).resolve("missing")


def test_a_file_that_is_not_executable_is_refused(programs: Path) -> None:
    (programs / "plain").write_text("data")

    with pytest.raises(CannotRunError, match="not executable"):
        Allow.parse(["*"], str(programs)).resolve(f"{programs}/plain")


@pytest.mark.parametrize("program", ["./tool", "bin/tool", "../tool"])
def test_a_relative_path_is_refused_even_where_everything_is_allowed(program: str) -> None:
    with pytest.raises(CannotRunError, match="relative path"):
        Allow.parse(["*"], "/bin").resolve(program)


@pytest.mark.parametrize("rule", ["./tool", "bin/tool", ""])
def test_a_relative_rule_is_wrong_usage(rule: str) -> None:
    with pytest.raises(UsageError, match="absolute path"):
        Allow.parse([rule], "/bin")


def test_relative_parts_of_path_are_not_searched(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(programs)

    with pytest.raises(CannotRunError, match="does not exist"):
        Allow.parse(["*"], ".::").resolve("northstar-report")
