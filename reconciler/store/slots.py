"""Materialising: due slots become runs, or ledger rows that say why not.

Laws: exactly one run or ledger row per (trigger, slot) (S1); rows and the trigger's cursor move in one transaction
(S2); the cursor, not the row, is the memory, and its compare-and-set under the term decides who writes (S4, S7).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

from sqlalchemy import ColumnElement, Select, case, or_, select, update

from reconciler.clock import SECOND_US
from reconciler.model.lease import Term, Timings
from reconciler.model.policy import DEFAULT_MISFIRE, Misfire
from reconciler.model.run import SkipReason
from reconciler.schedule import misfire as misfires
from reconciler.schedule.misfire import Now
from reconciler.schedule.timeline import Planned, Timeline
from reconciler.store import pauses, timelines
from reconciler.store.database import Tx, in_states
from reconciler.store.leader import guard
from reconciler.store.ledger import Kept, make_runs, record_skips
from reconciler.store.order import aging_of
from reconciler.store.pauses import Pause
from reconciler.store.runs import SLEEPING
from reconciler.store.tables import definitions
from reconciler.store.tables import runs as live
from reconciler.store.trigger_tables import triggers

SLOTS_PER_TRIGGER: Final = 500
"""How many slots of one trigger a transaction settles at most; the rest follows in the next one."""
_TRIGGERS_AT_ONCE: Final = 1000
_SHORTEST_SECONDS: Final = 0.005
_LONGEST_SECONDS: Final = 1.0
_LOOKS_AT: Final = 10_000
"""How far a step looks for newer missed slots, before it takes those that it has for the newest."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a step goes: so far ahead, over so many triggers; what is later than `on_time_us` was missed.

    `misfire` is the policy of triggers that say nothing of it, `stepped` what the clock just jumped over.
    """

    look_ahead_us: int
    on_time_us: int
    limit: int
    misfire: Misfire = DEFAULT_MISFIRE
    stepped: tuple[int, int] | None = None

    @classmethod
    def of(cls, timings: Timings, misfire: Misfire) -> Self:
        """Give the bounds that a leader's timings ask for."""
        return cls(
            look_ahead_us=round(timings.look_ahead_seconds * SECOND_US),
            on_time_us=round(timings.on_time_seconds * SECOND_US),
            limit=_TRIGGERS_AT_ONCE,
            misfire=misfire,
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """What one step did: runs made (so many of them claimable now), slots skipped by reason, misfires by policy.

    `more` when due triggers are left, `broken` why some could not be settled, by trigger id.
    """

    runs: int
    due: int
    skipped: Mapping[str, int]
    misfires: Mapping[str, int]
    deferred: Mapping[str, int]
    """Slots that wait for a calendar, by its name."""
    more: bool
    broken: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Outlook:
    """The store's clock, the next slot of all triggers, and the instant at which the next waiting run is due."""

    now_us: int
    next_fire_us: int | None
    next_due_us: int | None

    def is_due(self, look_ahead_us: int) -> bool:
        """Whether there is something to do now."""
        return any(each <= self.now_us for each in self._instants(look_ahead_us))

    def pause_seconds(self, look_ahead_us: int) -> float:
        """Give how long nothing has to be done, within bounds.

        A slot that is due still, just after everything was settled, is one that people hold back, or of a trigger that
        is broken: it is looked at again after the longest pause.
        """
        ahead = [each - self.now_us for each in self._instants(look_ahead_us) if each > self.now_us]
        return min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, min(ahead, default=math.inf) / SECOND_US))

    def _instants(self, look_ahead_us: int) -> list[int]:
        fire = [] if self.next_fire_us is None else [self.next_fire_us - look_ahead_us]
        return fire if self.next_due_us is None else [*fire, self.next_due_us]


@dataclass(frozen=True, slots=True)
class _Step:
    """What becomes of one trigger: its slots, and where its cursor and next fire go."""

    trigger: Any
    decisions: Sequence[Planned]
    cursor_us: int
    next_fire_us: int | None
    deadline_us: int | None
    policy: str
    misfires: int


def settle(
    tx: Tx, term: Term, bounds: Bounds, *, only: Collection[int] | None = None, at_us: int | None = None
) -> Settled:
    """Turn slots that are due, or soon will be, into runs or ledger rows.

    An apply settles what it is about to change: `only` names those definitions, and `at_us` is its instant, so that no
    slot falls between the old activation and the new. Raises NotLeaderError when the term is over.
    """
    guard(tx, term)
    now_us = tx.now_us() if at_us is None else at_us
    due = _due(tx, now_us, bounds, only=only)
    paused = pauses.by_job(tx, {each.job for each in due}) if due else {}
    calendars = timelines.calendars_of(tx, (each.timing for each in due))
    steps, broken = [], {}
    for each in due:
        try:
            line = timelines.timeline_of(each.timing, each.activated_us, (each.job, each.name), calendars)
            steps.append(_step(each, line, now_us, bounds, paused=paused.get(each.job, ())))
        except Exception as fault:  # noqa: BLE001 - one malformed row must not stop the other triggers (X2)
            broken[each.id] = f"{type(fault).__name__}: {fault}"
    won = _move_cursors(tx, steps, now_us)
    mine = [step for step in steps if step.trigger.id in won]
    kept = [Kept(step.trigger, step.decisions, step.deadline_us) for step in mine]
    by = f"leader/{term.number}"
    made = make_runs(tx, kept, now_us=now_us, by=by)
    skipped = record_skips(tx, kept, now_us=now_us, by=by)
    more = len(due) - len(broken) == bounds.limit or any(_is_due_still(step, now_us) for step in mine)
    return Settled(
        len(made),
        sum(due_us <= now_us for due_us in made),
        skipped,
        _misfires(mine),
        _deferred(kept),
        more,
        broken,
    )


def _misfires(mine: Sequence[_Step]) -> Counter[str]:
    """Count the slots that were noticed too late, by the policy that decided over them."""
    found = Counter[str]()
    for each in mine:
        if each.misfires:
            found[each.policy] += each.misfires
    return found


def _deferred(kept: Sequence[Kept]) -> Counter[str]:
    """Count the slots that wait for a calendar, by its name."""
    waits = (None, SkipReason.DEFERRED)
    slots = (each for step in kept for each in step.decisions)
    return Counter(each.calendar for each in slots if each.calendar is not None and each.reason in waits)


def outlook(tx: Tx) -> Outlook:
    """Tell what comes next, in one statement and two looks into an index."""
    row = tx.run(_outlook).one()
    return Outlook(row.now_us, row.next_fire_us, row.next_due_us)


def _outlook(tx: Tx) -> Select[Any]:
    fire = select(triggers.c.next_fire_us).where(triggers.c.next_fire_us.is_not(None))
    due = select(live.c.due_us).where(in_states(live.c.state, SLEEPING))
    return select(
        tx.now.label("now_us"),
        fire.order_by(triggers.c.next_fire_us).limit(1).scalar_subquery().label("next_fire_us"),
        due.order_by(live.c.due_us, live.c.id).limit(1).scalar_subquery().label("next_due_us"),
    )


def with_job(*which: ColumnElement[bool]) -> Select[Any]:
    """Select triggers with what their slots get of the job."""
    return (
        select(
            triggers,
            definitions.c.name.label("job"),
            definitions.c.generation,
            definitions.c.requirement_id,
            definitions.c.priority,
            or_(definitions.c.suspended, triggers.c.suspended).label("is_suspended"),
            aging_of(definitions.c.requirement_id).label("aging_us"),
        )
        .join(definitions, definitions.c.id == triggers.c.definition_id)
        .where(*which)
    )


def _due(tx: Tx, now_us: int, bounds: Bounds, *, only: Collection[int] | None) -> Sequence[Any]:
    """Find due triggers. What people hold back gets no look-ahead: its slots are recorded as they pass."""
    next_us, ahead_us = triggers.c.next_fire_us, now_us + bounds.look_ahead_us
    is_held = or_(definitions.c.suspended, triggers.c.suspended, pauses.is_paused(definitions.c.name, now_us))
    query = (
        # Both: the first is what the index is walked by.
        with_job(next_us <= ahead_us, next_us <= case((is_held, now_us), else_=ahead_us))
        .add_columns(is_held.label("is_held"))
        .order_by(next_us, triggers.c.id)
        .limit(bounds.limit)
    )
    if only is not None:
        query = query.where(tx.among(triggers.c.definition_id, only))
    return tx.execute(query).all()


def _step(trigger: Any, line: Timeline, now_us: int, bounds: Bounds, *, paused: Sequence[Pause]) -> _Step:
    until_us = now_us if trigger.is_held else now_us + bounds.look_ahead_us
    taken = line.between(trigger.cursor_us, until_us, limit=SLOTS_PER_TRIGGER)
    cursor_us = max(taken[-1].slot_us, trigger.cursor_us) if taken else max(trigger.cursor_us, until_us)
    rules = timelines.rules_of(trigger.rules, bounds.misfire)
    now = Now(now_us, bounds.on_time_us, bounds.stepped)
    decisions = misfires.settle(
        taken,
        now,
        rules=rules,
        held=partial(_held, bool(trigger.is_suspended), paused, now_us),
        following=line.walk(cursor_us, now_us, batch=SLOTS_PER_TRIGGER, most=_LOOKS_AT),
    )
    return _Step(
        trigger,
        decisions,
        cursor_us,
        line.next_after(cursor_us),
        rules.starting_deadline_us,
        policy=str(rules.misfire.policy),
        misfires=misfires.count_missed(decisions, now),
    )


def _held(
    is_suspended: bool,  # noqa: FBT001 - a fact, bound once
    paused: Sequence[Pause],
    now_us: int,
    slot_us: int,
) -> tuple[SkipReason, str | None] | None:
    if is_suspended:
        return SkipReason.SUSPENDED, None
    pause = next((each for each in paused if each.holds(slot_us, now_us)), None)
    return None if pause is None else (SkipReason.PAUSED, pause.told)


def _is_due_still(step: _Step, now_us: int) -> bool:
    return step.next_fire_us is not None and step.next_fire_us <= now_us


def _move_cursors(tx: Tx, steps: Sequence[_Step], now_us: int) -> set[int]:
    """Move each cursor if it still stands where we read it; only the winners' rows are written."""
    if not steps:
        return set()
    moved = tx.rows(
        "moved",
        {
            "id": int,
            "activation": int,
            "revision": int,
            "old_us": int,
            "cursor_us": int,
            "settled_us": int,
            "next_fire_us": int,
        },
        sorted(
            (
                step.trigger.id,
                step.trigger.activation,
                step.trigger.revision,
                step.trigger.cursor_us,
                step.cursor_us,
                max(step.trigger.settled_us, now_us),
                step.next_fire_us,
            )
            for step in steps
        ),
    )
    won = tx.execute(
        update(triggers)
        .where(
            triggers.c.id == moved.c.id,
            triggers.c.activation == moved.c.activation,
            triggers.c.revision == moved.c.revision,
            triggers.c.cursor_us == moved.c.old_us,
            triggers.c.removed_us.is_(None),
        )
        .values(cursor_us=moved.c.cursor_us, settled_us=moved.c.settled_us, next_fire_us=moved.c.next_fire_us)
        .returning(triggers.c.id)
    )
    return set(won.scalars())
