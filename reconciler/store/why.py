"""What became of a slot: the run it is, the reason why there is none, or what is still to come.

Law: there is no silent gap. Whatever instant is asked about, each trigger of the job answers from a run, a row of the
ledger, its own declaration, or the fact that nobody has settled that far yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import select

from reconciler.clock import SECOND_US
from reconciler.errors import NotFoundError
from reconciler.schedule.timeline import Planned
from reconciler.store import pauses, timelines
from reconciler.store.database import Tx
from reconciler.store.pauses import Pause
from reconciler.store.queries import RunRow, SkippedSlot, runs_at, skipped_at
from reconciler.store.slots import with_job
from reconciler.store.tables import definitions
from reconciler.store.trigger_tables import triggers

_MINUTE_US: Final = 60 * SECOND_US
_MOST: Final = 60


class Fate(StrEnum):
    """What an answer rests on."""

    RUN = "Run"
    SKIPPED = "Skipped"
    PLANNED = "Planned"
    """The slot is to come."""
    UNSETTLED = "Unsettled"
    """The slot has passed, and no leader has decided on it yet."""
    BEFORE_ACTIVATION = "BeforeActivation"
    """The trigger says so now, but was made or changed after that instant."""
    NO_SLOT = "NoSlot"
    """The trigger does not fire then."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one trigger says about an instant; `next_us` is its first slot after it."""

    trigger: str
    fate: Fate
    slot_us: int | None
    run: RunRow | None = None
    skipped: SkippedSlot | None = None
    planned: Planned | None = None
    activated_us: int | None = None
    next_us: int | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """All that the store knows about a job at an instant; `by_hand` are runs that stand for it without a trigger."""

    job: str
    answers: Sequence[Answer]
    by_hand: Sequence[RunRow]
    pause: Pause | None
    is_suspended: bool
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class _Asked:
    """The instants asked about, both included, and now."""

    from_us: int
    until_us: int
    now_us: int


def why(tx: Tx, job: str, at_us: int) -> Why:
    """Say what became of the slots of a job at an instant; a whole minute stands for all of it.

    Raises NotFoundError for a name that no job ever had.
    """
    known = tx.execute(select(definitions).where(definitions.c.kind == "Job", definitions.c.name == job)).all()
    if not known:
        raise NotFoundError(f"there is no job {job!r}, nor was there one; `reconciler get jobs` lists them")
    until_us = at_us if at_us % _MINUTE_US else at_us + _MINUTE_US - 1
    asked = _Asked(at_us, until_us, tx.now_us())
    runs, skipped = runs_at(tx, job, at_us, until_us), skipped_at(tx, job, at_us, until_us)
    answers = [Answer(each.trigger, Fate.RUN, each.slot_us, run=each) for each in runs if each.trigger is not None]
    answers += [Answer(each.trigger, Fate.SKIPPED, each.slot_us, skipped=each) for each in skipped]
    answers += _not_told(_declared(tx, job, asked), answers)
    live = [row for row in known if row.deleted_us is None]
    on = pauses.by_job(tx, [job]).get(job, ())
    return Why(
        job,
        sorted(answers, key=lambda each: (each.trigger, each.slot_us or 0)),
        [each for each in runs if each.trigger is None],
        next((each for each in on if each.holds(asked.now_us, asked.now_us)), None),
        is_suspended=any(row.suspended for row in live),
        is_deleted=not live,
    )


def _not_told(declared: Sequence[Answer], told: Sequence[Answer]) -> list[Answer]:
    """Leave out what the store has told already, and what a trigger does not do beside what it did."""
    triggers = {each.trigger for each in told}
    slots = {(each.trigger, each.slot_us) for each in told}
    is_open = {Fate.PLANNED, Fate.UNSETTLED}
    return [
        each
        for each in declared
        if each.trigger not in triggers or (each.fate in is_open and (each.trigger, each.slot_us) not in slots)
    ]


def _declared(tx: Tx, job: str, asked: _Asked) -> list[Answer]:
    """Let each live trigger say what it plans at the instants asked about."""
    is_live = definitions.c.deleted_us.is_(None), triggers.c.removed_us.is_(None)
    rows = tx.execute(with_job(definitions.c.name == job, definitions.c.kind == "Job", *is_live)).all()
    calendars = timelines.calendars_of(tx, (row.timing for row in rows))
    return [each for row in rows for each in _of_trigger(row, asked, calendars)]


def _of_trigger(row: Any, asked: _Asked, calendars: timelines.Resolved) -> list[Answer]:
    line = timelines.timeline_of(row.timing, row.activated_us, (row.job, row.name), calendars)
    planned = line.between(asked.from_us - 1, asked.until_us, limit=_MOST)
    next_us = line.next_after(max(asked.until_us, row.activated_us))
    if not planned:
        return [Answer(row.name, Fate.NO_SLOT, None, activated_us=row.activated_us, next_us=next_us)]
    return [
        Answer(
            row.name,
            _fate(each, row, asked),
            each.slot_us,
            planned=each,
            activated_us=row.activated_us,
            next_us=next_us,
        )
        for each in planned
    ]


def _fate(planned: Planned, row: Any, asked: _Asked) -> Fate:
    if planned.slot_us <= row.activated_us:
        return Fate.BEFORE_ACTIVATION
    return Fate.PLANNED if planned.slot_us > asked.now_us else Fate.UNSETTLED
