"""`reconciler schedule`: when something fires, of a job or of a bare expression."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat, takewhile
from pathlib import Path
from typing import Any, Final

import click

from reconciler.cli import options, show, tables
from reconciler.clock import SystemClock, from_us, iso
from reconciler.errors import NotFoundError, UsageError
from reconciler.model.definition import DEFAULT_TIME_ZONE, Job, timing_from
from reconciler.model.kinds import Calendar
from reconciler.model.policy import DayRule, Gap, Overlap
from reconciler.model.trigger import frame_from
from reconciler.schedule import TimingError
from reconciler.schedule.timeline import Planned, Timeline, timeline
from reconciler.schedule.zones import load_zone

_STRETCH: Final = 256
_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Line:
    """A trigger's name, its slots, and the zone that people read them in."""

    name: str
    slots: Timeline
    zone: str
    of_job: bool = True
    """Whether it belongs to a job; else it was given by hand."""


@click.group()
def command() -> None:
    """Show when a job, or a bare expression, fires: the next times, or those between two instants.

    \b
    Examples:
      reconciler schedule next daily-sales-report
      reconciler schedule next --cron '30 2 * * *' --tz America/New_York --gap Skip
      reconciler schedule between daily-sales-report --after 2026-12-24T00:00Z --until 2027-01-02T00:00Z
    """


def _what(function: Any) -> Any:
    """Add the options that say whose times are asked for."""
    choices: tuple[tuple[str, Any], ...] = (
        ("--day-rule", click.Choice([str(each) for each in DayRule])),
        ("--overlap", click.Choice([str(each) for each in Overlap])),
        ("--gap", click.Choice([str(each) for each in Gap])),
    )
    for name, kind in choices:
        function = click.option(name, type=kind, default=None, help="With --cron: as in a file.")(function)
    for name, metavar, about in (
        ("--anchor", "INSTANT", "With --every: the instant it counts from.  [default: --after]"),
        ("--every", "DURATION", "An interval, like 15m."),
        ("--tz", "ZONE", "With --cron: an IANA time zone.  [default: UTC]"),
        ("--cron", "EXPRESSION", "A cron expression."),
        ("--trigger", "NAME", "Only this trigger of the job."),
    ):
        function = click.option(name, metavar=metavar, default=None, help=about)(function)
    files = click.option(
        "--files", type=click.Path(path_type=Path), default=None, metavar="PATH", help="Read the job from these files."
    )
    after = click.option("--after", metavar="INSTANT", default=None, help="Strictly after this.  [default: now]")
    return click.argument("job", required=False)(options.store(options.output(files(after(function)))))


@command.command(name="next")
@_what
@click.option("--count", type=click.IntRange(1, 10_000), default=5, show_default=True, help="So many times.")
def next_(store_url: str | None, output: str, after: str | None, count: int, **asked: Any) -> None:
    """Show the next times at which JOB, or an expression, fires.

    \b
    Examples:
      reconciler schedule next daily-sales-report --count 10
      reconciler schedule next daily-sales-report --files jobs.d
      reconciler schedule next --cron '0 7 * * 1-5' --tz Europe/Berlin -o json
    """
    after_us = _after(after)
    lines = _lines(asked, store_url, after_us)
    _print(lines, _until_count(lines, after_us, count), output)


@command.command()
@_what
@click.option("--until", metavar="INSTANT", required=True, help="Up to this instant, included.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=1000, show_default=True, help="At most so many.")
def between(store_url: str | None, output: str, after: str | None, until: str, limit: int, **asked: Any) -> None:
    """Show the times at which JOB, or an expression, fires after one instant and up to another.

    \b
    Examples:
      reconciler schedule between heartbeat-probe --after 2026-12-01T00:00Z --until 2026-12-01T01:00Z
      reconciler schedule between --every 90m --anchor 2026-01-01T00:00Z --until 2027-01-01T00:00Z
    """
    after_us, until_us = _after(after), options.instant(until)
    lines = _lines(asked, store_url, after_us)
    found = takewhile(lambda each: each[1].slot_us <= until_us, _merged(lines, after_us))
    listed = list(islice(found, limit + 1))
    is_cut = len(listed) > limit
    _print(lines, listed[:limit], output, is_cut=is_cut)
    if is_cut:
        click.echo(f"there are more than these {limit:,}; --limit takes up to {_MOST:,}", err=True)


def _after(text: str | None) -> int:
    return SystemClock().now_us() if text is None else options.instant(text)


def _until_count(lines: list[_Line], after_us: int, count: int) -> list[tuple[_Line, Planned]]:
    """Take slots until so many of them fire; those that do not are shown between them."""
    taken, fires = [], 0
    for line, slot in islice(_merged(lines, after_us), _MOST):
        taken.append((line, slot))
        fires += slot.reason is None
        if fires == count:
            break
    return taken


def _merged(lines: list[_Line], after_us: int) -> Iterator[tuple[_Line, Planned]]:
    """Walk over the slots of all triggers in order of time."""
    walks = (zip(repeat(line), _walk(line.slots, after_us), strict=False) for line in lines)
    yield from heapq.merge(*walks, key=lambda found: found[1].slot_us)


def _walk(line: Timeline, after_us: int) -> Iterator[Planned]:
    while True:
        following_us = line.next_after(after_us)
        if following_us is None:
            return
        found = line.between(after_us, following_us, limit=_STRETCH)
        yield from found
        after_us = following_us


def _lines(asked: Mapping[str, Any], store_url: str | None, after_us: int) -> list[_Line]:
    """Find what is asked about. Raises UsageError, NotFoundError."""
    given = [name for name in ("job", "cron", "every") if asked[name] is not None]
    if len(given) != 1:
        raise UsageError("name one of: a JOB, --cron EXPRESSION, --every DURATION")
    if given == ["job"]:
        for name in ("tz", "gap", "overlap", "day_rule", "anchor"):
            if asked[name] is not None:
                raise UsageError(f"--{name.replace('_', '-')} does not go with a JOB: its triggers say so themselves")
        lines = _of_job(asked["job"], asked["files"], store_url, after_us)
        chosen = [each for each in lines if asked["trigger"] in {None, each.name}]
        if not chosen:
            names = ", ".join(each.name for each in lines) or "none: it runs by hand only"
            raise NotFoundError(f"job {asked['job']!r} has no such trigger; it has {names}")
        return chosen
    document = _document(asked)
    zone = document.get("timeZone", DEFAULT_TIME_ZONE)
    try:
        line = timeline(timing_from(document), frame_from(document), activated_us=after_us)
    except TimingError as fault:
        raise UsageError(f"{fault} (column {fault.offset + 1})") from fault
    except ValueError as fault:
        raise UsageError(str(fault)) from fault
    return [_Line(given[0], line, zone, of_job=False)]


def _document(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Write the options as the trigger that they stand for."""
    wrong = {"cron": ("anchor",), "every": ("tz", "gap", "overlap", "day_rule")}
    kind = "cron" if asked["cron"] is not None else "every"
    for name in (*wrong[kind], "trigger", "files"):
        if asked[name] is not None:
            raise UsageError(f"--{name.replace('_', '-')} does not go with --{kind}")
    dst = {"gap": asked["gap"], "overlap": asked["overlap"]}
    fields = {
        "cron": asked["cron"],
        "every": asked["every"],
        "anchor": asked["anchor"],
        "timeZone": asked["tz"],
        "dayRule": asked["day_rule"],
        "dst": {name: value for name, value in dst.items() if value is not None} or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _of_job(name: str, files: Path | None, store_url: str | None, after_us: int) -> list[_Line]:
    if files is None:
        from reconciler.cli.stores import open_store
        from reconciler.store import timelines

        found = open_store(store_url).read(lambda tx: timelines.of_job(tx, name))
        return [_Line(each.trigger, each.timeline, each.zone) for each in found]
    from reconciler.cli.settings import load
    from reconciler.schedule.resolve import built
    from reconciler.spec.load import load_tree

    settings = load()
    tree = load_tree(files, limits=settings.limits, time_zone=settings.time_zone)
    job = next((each.declared for each in tree.definitions if each.key == (Job.kind, name)), None)
    if not isinstance(job, Job):
        raise NotFoundError(
            f"{files} declares no sound job {name!r}; `reconciler validate {files}` shows what is wrong"
        )
    calendars = {
        each.declared.name: built(each.declared.spec)
        for each in tree.definitions
        if isinstance(each.declared, Calendar)
    }
    return [
        _Line(
            each.name,
            timeline(
                each.timing,
                frame_from(each.timing_document),
                activated_us=after_us,
                name=(job.name, each.name),
                calendars=calendars,
            ),
            each.timing_document.get("timeZone", DEFAULT_TIME_ZONE),
        )
        for each in job.triggers
    ]


def _print(lines: list[_Line], found: list[tuple[_Line, Planned]], output: str, *, is_cut: bool = False) -> None:
    """Print slots; of a bare expression programs get the fires alone, and what does not fire if there is any."""
    slots = [_slot(line, slot) for line, slot in found]
    value: dict[str, Any] = {
        "formatVersion": show.FORMAT_VERSION,
        "fires": [each["slot"] for each in slots if each["reason"] is None],
    }
    if lines[0].of_job:
        value["slots"] = slots
    elif skipped := [each for each in slots if each["reason"] is not None]:
        value["skipped"] = skipped
    if is_cut:
        value["truncated"] = True
    columns = ["slot", "local", *(["trigger"] if len(lines) > 1 else []), "note"]
    drawn = tables.table(slots, columns) if slots else "it does not fire"
    show.show_value(lambda: value, lambda _: drawn, output)


def _slot(line: _Line, slot: Planned) -> dict[str, Any]:
    local = from_us(slot.slot_us).astimezone(load_zone(line.zone))
    note = None
    if slot.reason is not None:
        note = f"does not run: {slot.reason}" + (f" ({slot.detail})" if slot.detail else "")
    elif slot.due_us != slot.slot_us:
        note = f"due {iso(slot.due_us)}"
    clocks = line.slots.clock_note(slot.slot_us)
    note = "; ".join(each for each in (note, clocks) if each) or None
    return {
        "trigger": line.name,
        "slot": iso(slot.slot_us),
        "local": f"{local:%a} {local.isoformat()}",
        "due": iso(slot.due_us),
        "reason": None if slot.reason is None else str(slot.reason),
        "detail": slot.detail,
        "note": note,
    }
