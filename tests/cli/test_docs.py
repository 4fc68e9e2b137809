"""Every command line that the documents and the help show is one that the command line understands."""

import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reconciler.cli import devnodes, root, run
from tests.cli.test_front_door import commands

REPOSITORY = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(each.relative_to(REPOSITORY)) for each in (REPOSITORY / "docs").glob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(reconcile[r ][^`]*)`")
LINE = re.compile(r"^ *(?:\$ )?(reconciler? .*)$", re.MULTILINE)
NO_LINE = ("…", "|", " (")
"""What stands in for a part, in spans that name several commands or none."""


def shown_in(page: str) -> Iterator[tuple[int, str]]:
    """Find the command lines of a page, in blocks and in running text, each with its line."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    for found in LINE.finditer(text):
        if found.group().startswith("    ") or any(each.start() < found.start() < each.end() for each in fences(text)):
            yield text.count("\n", 0, found.start()) + 1, found[1]
    prose = FENCED.sub(lambda block: "\n" * block.group().count("\n"), text)
    for found in SPAN.finditer(prose):
        if not any(each in found[1] for each in NO_LINE):
            yield prose.count("\n", 0, found.start()) + 1, " ".join(found[1].split())


def fences(text: str) -> list[re.Match[str]]:
    return list(FENCED.finditer(text))


def understood(line: str) -> None:
    """Parse a command line as the program does, without its values. Raises click.UsageError."""
    program, *words = shlex.split(line, comments=True)
    ends = [at for at, word in enumerate(words) if word in {"|", "&", "&&", ">", "||"}]
    words = words[: ends[0]] if ends else words
    command: click.Command = root
    if program == "reconcile":
        words = ["reconcile", *words]
    while True:
        context = click.Context(command)
        _options, rest, _order = command.make_parser(context).parse_args(list(words))
        if not isinstance(command, click.Group) or not rest:
            break
        found = command.get_command(context, rest[0])
        if found is None:
            raise click.UsageError(f"no such command: {rest[0]}")
        command, words = found, rest[1:]
    if rest and not isinstance(command, click.Group):
        raise click.UsageError(f"unexpected: {rest}")


@pytest.mark.parametrize("page", PAGES)
def test_every_command_line_of_a_page_is_understood(page: str) -> None:
    wrong = []
    for number, line in shown_in(page):
        try:
            understood(line)
        except click.BadOptionUsage:
            continue  # running text names an option without a value
        except click.UsageError as fault:
            wrong.append(f"{page}:{number}: {line}: {fault.message}")

    assert wrong == []


def test_the_first_job_of_the_readme_fails_and_passes_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (REPOSITORY / "README.md").read_text()
    blocks = [textwrap.dedent(each.group()).splitlines()[1:-1] for each in fences(text)]
    (job,) = ["\n".join(block) for block in blocks if block[0].startswith("apiVersion")]
    (report,) = ["\n".join(block[1:]) for block in blocks if block[0] == "$ reconciler validate jobs.d"]
    shutil.copytree(REPOSITORY / "jobs.d", tmp_path / "jobs.d")
    monkeypatch.chdir(tmp_path)

    Path("jobs.d/hello.yaml").write_text(job)
    assert run(["validate", "jobs.d"]) == 0
    assert f"# {capsys.readouterr().out.strip()}\n" in text
    Path("jobs.d/hello.yaml").write_text(job.replace("every:", "evry:"))
    assert run(["validate", "jobs.d"]) == 1
    assert capsys.readouterr().out.strip() == report


def test_the_pages_that_begin_show_many() -> None:
    assert len(list(shown_in("README.md"))) > 15
    assert len(list(shown_in("docs/quick-start.md"))) > 20


@pytest.mark.parametrize(
    "line",
    ["reconciler bogus", "reconciler runs bogus 1", "reconciler dev --node 3", "reconcile --dryrun", "reconcile a b"],
)
def test_a_line_that_the_program_would_refuse_is_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        understood(line)


@pytest.mark.parametrize("command", list(commands(root)), ids=" ".join)
def test_every_example_of_the_help_is_understood(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    examples = capsys.readouterr().out.split("Examples:\n", 1)[1].split("\n\n", 1)[0].splitlines()

    for each in examples:
        line = re.sub(r" {2,}\S.*$", "", each.strip())  # what stands far behind says what it is for
        if line.startswith("reconcile"):
            understood(line)


@pytest.mark.parametrize("page", ["docs/quick-start.md", "docs/definitions.md"])
def test_the_programs_that_dev_admits_are_listed(page: str) -> None:
    *most, last = (f"`{program}`" for program in devnodes.ALLOWED)
    text = " ".join((REPOSITORY / page).read_text(encoding="utf-8").split())

    assert f"{', '.join(most)} and {last}" in text
