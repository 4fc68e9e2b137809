"""Entries to YAML: one Job each, with what could not be carried over said above it.

Every comment goes through `_comment`, every value through `_scalar`, so that no line of a crontab can write YAML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.model.definition import DEFAULT_TIME_ZONE
from reconciler.spec.crontab.names import Names
from reconciler.spec.crontab.read import Crontab, Entry, LeftOut
from reconciler.spec.crontab.scripts import Script, script_of

NOTES: Final = "crontab-notes"
"""The name of the file, beside those of the jobs, that holds what is in none of them."""

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
_HEADER: Final = """\
Otherwise than with cron:
- A command runs as the worker's user, with the worker's PATH, in an empty folder of its own in place of a home
  directory. The worker has to admit the shells: `reconciler worker --allow {shells}`.
- What it prints goes to the run's log (`reconciler runs logs RUN`), not by mail: there are no channels yet.
- A run is ended after its `timeout`; cron never ends one.
- A slot that was missed, by an outage for example, is made up for once within 24 hours. Cron lets it pass, as
  `misfire: {{policy: SkipToNext}}` does.
- When the clocks change, fixed hours that are skipped fire right after and those that come twice fire once, as with
  cron in Debian and cronie; a star in minute or hour follows the wall. After a gap of over three hours nothing is made
  up for. The comparison of fire times leaves those days out."""


@dataclass(frozen=True, slots=True)
class Written:
    """A job as it is written, and the entry it was made from."""

    name: str
    entry: Entry
    text: str


@dataclass(frozen=True, slots=True)
class Pages:
    """What an import writes: the header, the jobs, and the lines that became none."""

    file: str
    header: str
    jobs: Sequence[Written]
    left_out: Sequence[LeftOut]

    def as_one(self) -> str:
        """Give everything as the text of one file."""
        return "\n---\n".join([self._notes(), *(job.text for job in self.jobs)])

    def by_file(self) -> dict[str, str]:
        """Give a file for each job, and one for the rest, by name."""
        return {
            f"{NOTES}.yaml": self._notes(),
            **{f"{job.name}.yaml": job.text for job in self.jobs},
        }

    def _notes(self) -> str:
        return self.header + "".join(
            "#\n" + _comment(f"{self.file}:{each.line}: {each.text}") + _comment(f"No job was made of it: {each.why}.")
            for each in self.left_out
        )


def pages_of(crontab: Crontab, *, zone: str, timeout: str) -> Pages:
    """Write the entries of a crontab; those that no shell can be told become lines left out."""
    names = Names(frozenset({NOTES}))
    jobs: list[Written] = []
    left_out = list(crontab.left_out)
    shells: dict[str, None] = {}
    for entry in crontab.entries:
        script = script_of(entry)
        if script.refusal:
            left_out.append(LeftOut(entry.line, entry.text, script.refusal))
            continue
        shells[script.argv[0]] = None
        name = names.name(entry.command)
        jobs.append(Written(name, entry, _job(crontab.file, name, entry, script, timeout=timeout)))
    header = _header(crontab, zone, " --allow ".join(shells))
    return Pages(crontab.file, header, jobs, sorted(left_out, key=lambda each: each.line))


def _header(crontab: Crontab, zone: str, shells: str) -> str:
    said = [
        f"Written by `reconciler import crontab` from {crontab.file}, for a machine in the zone {zone}.",
        "Each job cites its line. The fire times of a year were compared with the line's own fields.",
        "",
        *_HEADER.format(shells=shells).split("\n"),
    ]
    return "".join(map(_comment, said))


def _job(file: str, name: str, entry: Entry, script: Script, *, timeout: str) -> str:
    said = [*entry.remarks, f"{file}:{entry.line}: {entry.text}"]
    said += [f"- {note}" for note in (*_notes(entry), *script.notes)]
    lines = [
        "apiVersion: reconciler/v1",
        "kind: Job",
        "metadata:",
        f"  name: {name if name[0].isalpha() else _scalar(name)}",
        "spec:",
        "  handler:",
        "    type: command",
        "    with:",
        *_argv(script.argv),
        *_environment(script.environment),
        "  triggers:",
        *_trigger(entry),
        f"  timeout: {timeout}",
    ]
    return "".join(map(_comment, said)) + "\n".join(lines) + "\n"


def _notes(entry: Entry) -> Iterator[str]:
    """Say what of an entry is not carried over, and how to mend it."""
    if entry.user is not None:
        yield (
            f"user {entry.user}: a run has the user of its worker. Start a worker as {entry.user} for a queue of its "
            f"own (`--queues`), and let this job name that queue."
        )
    if mail := entry.environment.get("MAILTO"):
        yield f"MAILTO={mail}: nothing is mailed; there are no channels yet. `reconciler runs logs` shows the output."
    if "TZ" in entry.environment:
        yield "TZ is the command's alone: cron's times follow CRON_TZ, or else the machine's zone."
    if entry.is_quiet:
        yield "the - in front kept it out of cron's log; runs are always recorded."
    yield from entry.times.notes


def _argv(argv: Sequence[str]) -> list[str]:
    if all("\n" not in each for each in argv):
        return [f"      argv: [{', '.join(_plain(each) for each in argv)}]"]
    lines = ["      argv:"]
    for each in argv:
        if "\n" in each and _fits_block(each):
            lines += ["        - |-", *(f"          {line}".rstrip(" ") for line in each.split("\n"))]
        else:
            lines.append(f"        - {_plain(each)}")
    return lines


def _environment(environment: Mapping[str, str]) -> list[str]:
    if not environment:
        return []
    return [
        "      env:",
        *(f"        - {{name: {_plain(name)}, value: {_scalar(environment[name])}}}" for name in environment),
    ]


def _trigger(entry: Entry) -> list[str]:
    timing = entry.times.timing()
    lines = [f"    - cron: {_scalar(timing['cron'])}", f"      timeZone: {entry.zone}"]
    if "dayRule" in timing:
        lines.append(f"      dayRule: {timing['dayRule']}")
    if "dst" in timing and entry.zone != DEFAULT_TIME_ZONE:  # no clock of UTC is changed
        lines.append(f"      dst: {{gap: {timing['dst']['gap']}, overlap: {timing['dst']['overlap']}}}")
    delay = entry.environment.get("RANDOM_DELAY", "")
    if delay.isascii() and delay.isdigit() and int(delay[:6]):
        lines.append(f"      jitter: {int(delay[:6])}m")
    return lines


def _fits_block(text: str) -> bool:
    """Whether a block keeps the text as it is."""
    lines = text.split("\n")
    return all(_is_shown(line) and not line.endswith(" ") for line in lines) and not text.startswith((" ", "\t", "\n"))


def _plain(text: str) -> str:
    """Write a text without quotes where it can be nothing else."""
    letters = text.replace("/", "").replace("-", "").replace("_", "")
    is_plain = letters.isascii() and letters.isalpha() and text[0] not in "-_"
    return text if is_plain and text.lower() not in {"true", "false", "null"} else _scalar(text)


def _scalar(text: str) -> str:
    """Quote a text: in single quotes as it is, in double ones if something in it cannot be shown."""
    if _is_shown(text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_ESCAPES.get(each, each if each.isprintable() else _escaped(each)) for each in text) + '"'


def _is_shown(text: str) -> bool:
    return text.replace("\t", "").isprintable()


def _escaped(character: str) -> str:
    return f"\\U{ord(character):08X}"


def _comment(text: str) -> str:
    """Write a line of comment; a character that cannot be shown is escaped, so it ends no line."""
    shown = "".join(each if each.isprintable() else " " if each == "\t" else _escaped(each) for each in text)
    return f"# {shown}".rstrip() + "\n"
