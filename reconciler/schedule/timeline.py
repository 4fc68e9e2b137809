"""The slots of one trigger, with everything that its definition says of them: bounds, jitter, calendars, gaps.

Law: a timeline is a pure function of the declared texts, the name it is spread by, and the resolved calendars; so every
leader plans the same slots at the same instants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.clock import iso
from reconciler.model.definition import Timing
from reconciler.model.policy import CalendarAction
from reconciler.model.run import SkipReason
from reconciler.model.trigger import Frame
from reconciler.schedule.calendar import NEVER, Calendar
from reconciler.schedule.clockchanges import ClockChange, clock_changes, note_of
from reconciler.schedule.occurrences import Occurrences, compile_timing, parse_instant

_MILLISECOND_US: Final = 1000
_TO: Final = "to "


@dataclass(frozen=True, slots=True)
class Planned:
    """A slot, and the instant at which its run is due; `reason` is set when it is known already that none will be."""

    slot_us: int
    due_us: int
    reason: SkipReason | None = None
    detail: str | None = None
    calendar: str | None = None
    """The calendar that was closed then, if one was."""


def release_told(detail: str) -> int:
    """Read from what the ledger says of a deferred slot, to which instant it was deferred."""
    return parse_instant(detail.removeprefix(_TO).split(" ", 1)[0])


class Timeline:
    """Answers which slots a trigger has, and what its definition alone makes of them."""

    def __init__(
        self, occurrences: Occurrences, frame: Frame, *, seed: str = "", calendars: Mapping[str, Calendar] | None = None
    ) -> None:
        """Lay a frame on occurrences; `calendars` holds at least those that the frame names."""
        known = calendars or {}
        self._occurrences = occurrences
        self._seed = seed
        self._jitter_ms = frame.jitter_us // _MILLISECOND_US
        self._from_us = None if frame.not_before is None else parse_instant(frame.not_before)
        self._until_us = None if frame.not_after is None else parse_instant(frame.not_after)
        self._skipping = [
            (each.name, known[each.name]) for each in frame.calendars if each.action is CalendarAction.SKIP
        ]
        self._deferring = [
            (each.name, known[each.name]) for each in frame.calendars if each.action is CalendarAction.DEFER
        ]

    def next_after(self, after_us: int) -> int | None:
        """Give the first slot strictly later than `after_us`, whether it will run or not; None when there is none."""
        found = self._next(after_us)
        # A gap may be the last thing before `notAfter`: then no slot follows it.
        skipped = self._skipped(after_us, self._until_us if found is None else found, limit=1)
        return skipped[0] if skipped else found

    def next_run_after(self, after_us: int, *, most: int = 1_000) -> Planned | None:
        """Give the first slot later than `after_us` that will run; None if closed times hide it for `most` of them."""
        for _ in range(most):
            slot_us = self._next(after_us)
            if slot_us is None:
                return None
            planned = self.plan(slot_us)
            if planned.reason is None:
                return planned
            after_us = max(slot_us, self._last_hidden_with(planned))
        return None

    def _last_hidden_with(self, planned: Planned) -> int:
        """Give an instant before which no slot runs that is later than this one, which does not."""
        if planned.reason is SkipReason.DEFERRED:
            release_us, _ = self._release(planned.slot_us)
            joined_us = None if release_us is None else self._occurrences.previous_before(release_us + 1)
            return (joined_us or 0) - 1
        return self._skips_until(planned.slot_us) - 1

    def between(self, after_us: int, until_us: int, *, limit: int) -> list[Planned]:
        """List at most `limit` slots, oldest first, that are later than `after_us` and not later than `until_us`."""
        if self._from_us is not None:
            after_us = max(after_us, self._from_us - 1)
        if self._until_us is not None:
            until_us = min(until_us, self._until_us)
        planned = [self.plan(slot_us) for slot_us in self._occurrences.between(after_us, until_us, limit=limit)]
        end_us = until_us if len(planned) < limit else planned[-1].slot_us
        skipped = self._occurrences.skipped_between(after_us, end_us, limit=limit)
        if not skipped:
            return planned
        planned += [Planned(slot_us, slot_us, SkipReason.GAP_SKIPPED) for slot_us in skipped]
        return sorted(planned, key=lambda each: each.slot_us)[:limit]

    def walk(self, after_us: int, until_us: int, *, batch: int, most: int) -> Iterator[Planned]:
        """Go over about `most` slots of a range, in batches; of a closed stretch little more than a batch."""
        for _ in range(most // batch):
            found = self.between(after_us, until_us, limit=batch)
            yield from found
            if len(found) < batch:
                return
            after_us = found[-1].slot_us
            if all(each.reason is not None for each in found):
                opened = self.next_run_after(after_us)
                if opened is None or opened.slot_us > until_us:
                    return
                after_us = opened.slot_us - 1

    def clock_changes(self, after_us: int, until_us: int) -> Iterator[ClockChange]:
        """List the changes of the clocks in a range that touch times of this trigger."""
        return clock_changes(self._occurrences, after_us, until_us)

    def clock_note(self, slot_us: int) -> str | None:
        """Say of a slot that it stands where the clocks change; None for all others."""
        return note_of(self._occurrences, slot_us)

    def opens_at(self, slot_us: int) -> int | None:
        """Say when the calendars that defer a slot are open again, whatever else waits for that; None if never."""
        release_us, _ = self._release(slot_us)
        return slot_us if release_us is None else None if release_us == NEVER else release_us

    def _next(self, after_us: int) -> int | None:
        if self._from_us is not None:
            after_us = max(after_us, self._from_us - 1)
        found = self._occurrences.next_after(after_us)
        return None if found is None or (self._until_us is not None and found > self._until_us) else found

    def _skipped(self, after_us: int, until_us: int | None, *, limit: int) -> Sequence[int]:
        if until_us is None:
            return ()
        if self._from_us is not None:
            after_us = max(after_us, self._from_us - 1)
        return self._occurrences.skipped_between(after_us, until_us, limit=limit)

    def plan(self, slot_us: int) -> Planned:
        """Say when the run of a slot is due, or that its calendars leave it none."""
        if name := self._skips(slot_us):
            return Planned(slot_us, slot_us, SkipReason.BLACKOUT_SKIPPED, f"calendar {name}", name)
        release_us, name = self._release(slot_us)
        if release_us is None:
            return Planned(slot_us, slot_us + self._offset(slot_us))
        if release_us == NEVER:
            return Planned(
                slot_us, slot_us, SkipReason.BLACKOUT_SKIPPED, f"calendar {name} does not open any more", name
            )
        if joined := self._joined(slot_us, release_us):
            return Planned(
                slot_us,
                slot_us,
                SkipReason.DEFERRED,
                f"{_TO}{iso(release_us)} by calendar {name}: one run with slot {iso(joined)}",
                name,
            )
        if blocked := self._skips(release_us):
            return Planned(slot_us, slot_us, SkipReason.BLACKOUT_SKIPPED, f"calendar {blocked}", blocked)
        return Planned(slot_us, release_us + self._offset(slot_us), calendar=name)

    def _skips(self, at_us: int) -> str | None:
        """Name a calendar that is closed then, and whose slots are skipped."""
        return next((name for name, calendar in self._skipping if calendar.is_closed(at_us)), None)

    def _skips_until(self, at_us: int) -> int:
        """Give an instant up to which all slots from `at_us` on are skipped; 0 where that one is not."""
        return max((calendar.closed_until(at_us) or 0 for _, calendar in self._skipping), default=0)

    def _release(self, slot_us: int) -> tuple[int | None, str]:
        """Say when all deferring calendars are open again, and which was the last to open; None if they are now."""
        release_us, by = None, ""
        at_us, is_settled = slot_us, False
        while not is_settled:
            is_settled = True
            for name, calendar in self._deferring:
                until_us = calendar.closed_until(at_us)
                if until_us is not None:
                    release_us, by, at_us, is_settled = until_us, name, until_us, False
                    if until_us == NEVER:
                        return NEVER, name
        return release_us, by

    def _joined(self, slot_us: int, release_us: int) -> int | None:
        """Find a later slot that is released together with this one: several deferred slots become one run."""
        later_us = self._next(slot_us)
        while later_us is not None and later_us <= release_us:
            if not self._skips(later_us):
                return later_us
            later_us = self._next(self._skips_until(later_us) - 1)
        return None

    def _offset(self, slot_us: int) -> int:
        """Spread runs over the jitter: the same slot always gets the same share of it."""
        if self._jitter_ms == 0:
            return 0
        drawn = int.from_bytes(hashlib.sha256(f"{self._seed}:{slot_us}".encode()).digest()[:8])
        return drawn % self._jitter_ms * _MILLISECOND_US


def timeline(
    timing: Timing,
    frame: Frame,
    *,
    activated_us: int,
    name: tuple[str, str] = ("", ""),
    calendars: Mapping[str, Calendar] | None = None,
) -> Timeline:
    """Make the timeline of a trigger; `name` is its definition's and its own. Raises TimingError.

    `H` in a cron expression is drawn from the definition's name, jitter from both.
    """
    occurrences = compile_timing(timing, activated_us=activated_us, seed=name[0])
    return Timeline(occurrences, frame, seed="/".join(name), calendars=calendars)
