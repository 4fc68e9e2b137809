"""`reconciler import crontab`: what it writes, where, and when it writes nothing."""

import io
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import pytest

from reconciler.cli import importing
from reconciler.spec.crontab.fields import Times
from reconciler.spec.crontab.prove import Proof, Span, prove

CRONTAB = """\
MAILTO=ops@northstar.example
# the nightly load
15 2 * * * /opt/etl/load.sh --full
@reboot /opt/agent
*/10 8-18 * * mon-fri  cd /srv && ./poll.py%to stdin
"""
Told = Callable[..., str]


@pytest.fixture
def tab(alone: None, tmp_path: Path) -> Path:
    file = tmp_path / "etl.crontab"
    file.write_text(CRONTAB)
    return file


def test_what_is_written_is_valid_and_says_what_was_not_carried_over(tab: Path, told: Told) -> None:
    said = told("import", "crontab", "etl.crontab", "--tz", "Europe/Berlin", "--output", "jobs.d/etl.yaml")

    assert "2 jobs; " in said
    assert "are those of the crontab's own fields (without the 2 days on which the clocks change)" in said
    written = Path("jobs.d/etl.yaml").read_text()
    assert "# the nightly load\n# etl.crontab:3: 15 2 * * * /opt/etl/load.sh --full\n" in written
    assert "MAILTO=ops@northstar.example: nothing is mailed" in written
    assert "# etl.crontab:4: @reboot /opt/agent\n# No job was made of it" in written
    assert "2 valid definitions" in told("validate", "--strict", "jobs.d")
    assert "2026-12-02T01:15:00Z" in told(
        "schedule", "next", "load", "--files", "jobs.d", "--after", "2026-12-01T12:00Z", "--count", "1"
    )


def test_a_folder_gets_a_file_for_each_job_and_one_for_the_rest(tab: Path, told: Told) -> None:
    told("import", "crontab", "etl.crontab", "--output-dir", "jobs.d/cron")

    assert sorted(each.name for each in Path("jobs.d/cron").iterdir()) == [
        "crontab-notes.yaml",
        "load.yaml",
        "poll.yaml",
    ]
    assert "2 valid definitions in 3 files" in told("validate", "jobs.d")


def test_standard_input_and_output(tab: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CRONTAB.encode())))

    assert "# standard-input:3: 15 2 * * *" in told("import", "crontab", "-")


def test_nothing_is_written_while_a_line_is_wrong(tab: Path, told: Told) -> None:
    tab.write_text(CRONTAB + "61 * * * * /bin/true\n")

    said = told("import", "crontab", "etl.crontab", "--output", "out.yaml", code=1)

    assert "error[crontab.time]: minute 61 is outside 0-59\n  --> etl.crontab:6:1" in said.replace(" --> ", "  --> ")
    assert "nothing is written; --keep-going" in said
    assert not Path("out.yaml").exists()
    told("import", "crontab", "etl.crontab", "--output", "out.yaml", "--keep-going")
    assert "# etl.crontab:6: 61 * * * * /bin/true\n# No job was made of it: minute 61" in Path("out.yaml").read_text()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it holds no entry"),
        ("# nothing\nMAILTO=ops\n", "it holds no entry"),
        ("@reboot /opt/agent\n", "etl.crontab:1: "),
        ("61 * * * * /bin/true\n", "etl.crontab:1: minute 61 is outside 0-59"),
    ],
)
def test_no_file_without_a_job_is_written(tab: Path, told: Told, content: str, why: str) -> None:
    tab.write_text(content)

    said = told("import", "crontab", "etl.crontab", "--keep-going", "--output", "out.yaml", code=1)

    assert why in said
    assert "no job can be made of etl.crontab" in said
    assert not Path("out.yaml").exists()


def test_a_rule_for_clock_changes_is_written_where_clocks_change(tab: Path, told: Told) -> None:
    told("import", "crontab", "etl.crontab", "--output", "utc.yaml")
    told("import", "crontab", "etl.crontab", "--output", "berlin.yaml", "--tz", "Europe/Berlin")

    assert "dst:" not in Path("utc.yaml").read_text()
    assert "dst: {gap: RunAfter, overlap: First}" in Path("berlin.yaml").read_text()


def test_no_file_is_written_over_unless_that_is_said(tab: Path, told: Told) -> None:
    Path("jobs.d").mkdir()
    Path("jobs.d/poll.yaml").write_text("mine\n")

    said = told("import", "crontab", "etl.crontab", "--output-dir", "jobs.d", code=3)

    assert "jobs.d/poll.yaml is there already: nothing is written" in said
    assert [each.name for each in Path("jobs.d").iterdir()] == ["poll.yaml"]
    told("import", "crontab", "etl.crontab", "--output-dir", "jobs.d", "--force")
    assert "kind: Job" in Path("jobs.d/poll.yaml").read_text()


def test_nothing_is_written_when_fire_times_differ(tab: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_first(times: Times, fired: Iterable[datetime], span: Span) -> Proof:
        return prove(times, list(fired)[10:], span)

    monkeypatch.setattr(importing, "prove", without_the_first)

    said = told("import", "crontab", "etl.crontab", "--output", "out.yaml", code=1)

    assert "load (line 3): " in said
    assert "is in the crontab alone" in said
    assert not Path("out.yaml").exists()


def test_a_system_crontab_has_users(tab: Path, told: Told) -> None:
    tab.write_text("0 1 * * * root /usr/bin/save\n")

    assert "Add --system" in told("import", "crontab", "etl.crontab", code=1).replace("add", "Add")
    assert "user root: a run has the user of its worker" in told("import", "crontab", "etl.crontab", "--system")


@pytest.mark.parametrize(
    ("line", "code", "what"),
    [
        (["nope.crontab"], 3, "cannot be read"),
        (["."], 3, "cannot be read"),
        (["etl.crontab", "--tz", "Mars/Base"], 64, "unknown time zone"),
        (["etl.crontab", "--output", "a", "--output-dir", "b"], 64, "not both"),
        (["etl.crontab", "--output", "/proc/nope/out.yaml"], 3, "cannot be written"),
        (["etl.crontab", "--now", "tomorrow"], 64, "is no instant"),
    ],
)
def test_wrong_use_is_told(  # noqa: PLR0917 - a row of the table
    tab: Path, told: Told, line: list[str], code: int, what: str
) -> None:
    assert what in told("import", "crontab", *line, code=code)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x01\xff" * 100,
        b"15 2 * * * x\r\n\r\n",
        b"* " * 100_000,
        b"\n" * 10_000,
        "\ufeff0 1 * * * x\n".encode(),
        b"0 1 * * * " + b"x" * 200_000,
    ],
)
def test_no_content_ends_in_a_traceback(tab: Path, told: Told, content: bytes) -> None:
    tab.write_bytes(content)

    for code in (0, 1):
        try:
            said = told("import", "crontab", "etl.crontab", code=code)
        except AssertionError as other:
            if code == 1:
                raise AssertionError(str(other)[:500]) from None
        else:
            assert "Traceback" not in said
            return


def test_a_crontab_that_is_too_large_is_refused(tab: Path, told: Told) -> None:
    tab.write_bytes(b"# x\n" * 70_000)

    assert "more than 262,144 bytes" in told("import", "crontab", "etl.crontab", code=3)


def test_files_are_written_all_or_none(tab: Path, told: Told) -> None:
    Path("jobs.d/poll.yaml").mkdir(parents=True)

    said = told("import", "crontab", "etl.crontab", "--output-dir", "jobs.d", "--force", code=3)

    assert "poll.yaml is no file: nothing is written" in said
    assert [each.name for each in Path("jobs.d").iterdir()] == ["poll.yaml"]


def test_a_date_that_the_year_does_not_hold_is_compared_over_more_years(tab: Path, told: Told) -> None:
    tab.write_text("0 0 29 2 * /bin/leap\n")

    assert "1 job; 3 fire times" in told("import", "crontab", "etl.crontab", "--now", "2026-12-01T00:00:00Z")
