"""`reconciler why`: what became of a job at an instant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from reconciler.cli import options, show
from reconciler.cli.stores import open_store
from reconciler.clock import iso
from reconciler.model.run import SkipReason
from reconciler.store.why import Answer, Fate, Why
from reconciler.store.why import why as asked

_BECAUSE: Final[Mapping[str, str]] = {
    SkipReason.MISFIRE_SKIPPED: "it was noticed too late, and the misfire policy runs another slot instead, or none",
    SkipReason.CATCH_UP_CAP: "it was noticed too late, and newer slots used up `misfire.cap`",
    SkipReason.WINDOW_PASSED: "it was noticed later than `misfire.window` allows",
    SkipReason.BLACKOUT_SKIPPED: "a calendar was closed",
    SkipReason.DEFERRED: "a calendar was closed, and one run stands for all slots that wait for it",
    SkipReason.GAP_SKIPPED: "the clocks skipped that local time, and `dst.gap` says Skip or the gap is longer than 3 h",
    SkipReason.PAUSED: "the job was paused",
    SkipReason.SUSPENDED: "the file suspends the job or the trigger",
    SkipReason.DEADLINE_EXPIRED: "its starting deadline had passed",
    SkipReason.CLOCK_STEP: "the clock was set forward over it, and the misfire policy did not run it",
    SkipReason.DEFINITION_REMOVED: "the job or the trigger was taken out of the files",
}


@click.command()
@click.argument("job")
@click.argument("time")
@options.store
@options.output
def command(job: str, time: str, store_url: str | None, output: str) -> None:
    """Say what became of JOB at TIME, an instant with an offset; a whole minute stands for all of it.

    Every slot has an answer: the run it became, or the reason why there is none.

    \b
    Examples:
      reconciler why daily-sales-report 2026-12-01T07:30:00+01:00
      reconciler why heartbeat-probe 2026-12-01T06:30Z -o json
    """
    at_us = options.instant(time)
    database = open_store(store_url)
    show.show_value(lambda: _value(database.read(lambda tx: asked(tx, job, at_us)), at_us), _text, output)


def _value(why: Why, at_us: int) -> dict[str, Any]:
    return {
        "formatVersion": show.FORMAT_VERSION,
        "job": why.job,
        "at": iso(at_us),
        "deleted": why.is_deleted,
        "suspended": why.is_suspended,
        "paused": None if why.pause is None else show.pause(why.pause),
        "answers": [_answer(each) for each in why.answers],
        "byHand": [show.run(each) for each in why.by_hand],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    reason, detail = None, None
    if answer.skipped is not None:
        reason, detail = answer.skipped.reason, answer.skipped.detail
    elif answer.planned is not None and answer.planned.reason is not None:
        reason, detail = str(answer.planned.reason), answer.planned.detail
    return {
        "trigger": answer.trigger,
        "fate": str(answer.fate),
        "slot": show.maybe(answer.slot_us),
        "reason": reason,
        "because": None if reason is None else _BECAUSE.get(reason),
        "detail": detail,
        "recordedAt": None if answer.skipped is None else iso(answer.skipped.recorded_us),
        "due": None if answer.planned is None else iso(answer.planned.due_us),
        "run": None if answer.run is None else show.run(answer.run),
        "activatedAt": show.maybe(answer.activated_us),
        "nextSlot": show.maybe(answer.next_us),
    }


def _text(value: Mapping[str, Any]) -> str:
    lines = [f"{value['job']} at {value['at']}"]
    if value["deleted"]:
        lines.append("  the job is in no file any more")
    lines += [line for each in value["answers"] for line in _told(each)]
    lines += [f"  by hand  {_run(each)}" for each in value["byHand"]]
    if not value["answers"] and not value["byHand"]:
        lines.append("  it has no trigger: it runs by hand only")
    if paused := value["paused"]:
        until, ends = paused["until"] or "somebody resumes it", f"`reconciler resume {value['job']}` ends that"
        lines.append(f"  it is paused now, by {paused['by']}, until {until}; {ends}")
    if value["suspended"]:
        lines.append("  its file suspends it now (spec.suspend)")
    return "\n".join(lines)


def _told(answer: Mapping[str, Any]) -> list[str]:
    head = f"  {answer['trigger']}" + (f"  slot {answer['slot']}" if answer["slot"] else "")
    following = f"; its next slot is {answer['nextSlot']}" if answer["nextSlot"] else "; it has no slot after that"
    match Fate(answer["fate"]):
        case Fate.RUN:
            return [f"{head}  {_run(answer['run'])}"]
        case Fate.SKIPPED:
            return [f"{head}  did not run: {_because(answer)}", f"      recorded {answer['recordedAt']}"]
        case Fate.PLANNED if answer["reason"] is None:
            return [f"{head}  is to come" + (f", due {answer['due']}" if answer["due"] != answer["slot"] else "")]
        case Fate.PLANNED:
            return [f"{head}  will not run: {_because(answer)}"]
        case Fate.UNSETTLED:
            return [f"{head}  has passed, and no leader has decided on it yet; `reconciler status` shows who leads"]
        case Fate.BEFORE_ACTIVATION:
            changed = f"the trigger became active, or was changed, at {answer['activatedAt']}"
            return [f"{head}  does not count: {changed}{following}"]
        case Fate.NO_SLOT:
            return [f"{head}  does not fire then{following}"]


def _run(run: Mapping[str, Any]) -> str:
    because = f" ({run['reason']})" if run["reason"] else ""
    return f"run {run['id']} is {run['state']}{because}; `reconciler runs show {run['id']}` tells all"


def _because(answer: Mapping[str, Any]) -> str:
    detail = f" ({answer['detail']})" if answer["detail"] else ""
    return f"{answer['reason']}{detail}: {answer['because']}"
