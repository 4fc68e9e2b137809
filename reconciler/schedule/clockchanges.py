"""Where a schedule meets a change of the clocks: which of its times are skipped or come twice, and what is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.clock import from_us
from reconciler.model.policy import Gap, Overlap
from reconciler.schedule.cronslots import LONGEST_GAP_US, CronOccurrences
from reconciler.schedule.occurrences import Occurrences
from reconciler.schedule.zones import Segment, segment_at

_MOST: Final = 1000
_SHOWN: Final = 2
_FATES: Final[Mapping[Gap | Overlap, str]] = {
    Gap.RUN_AFTER: "fires as soon as the clocks have changed",
    Gap.SHIFT: "fires later by as much as the clocks skip",
    Gap.SKIP: "does not fire",
    Overlap.FIRST: "fires the first time only",
    Overlap.SECOND: "fires the second time only",
    Overlap.BOTH: "fires both times",
}


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of the clocks that a schedule meets: at which instant, and what becomes of which local times."""

    at_us: int
    is_gap: bool
    zone: str
    times_us: tuple[int, ...]
    """Local times of the schedule, naive: skipped by a gap, shown twice by an overlap."""
    rule: Gap | Overlap
    """The one that holds here; a gap of more than three hours is always skipped."""

    @property
    def field(self) -> str:
        """The field of `dst` that chooses the rule."""
        return "gap" if self.is_gap else "overlap"

    def __str__(self) -> str:
        """Say it to people."""
        day = f"{from_us(self.times_us[0]):%Y-%m-%d}"
        shown = [f"{from_us(each):%H:%M}" for each in self.times_us[:_SHOWN]]
        more = len(self.times_us) - len(shown)
        times = ", ".join(shown) + (f" and {more} more" if more else "")
        verb = "skip" if self.is_gap else "show"
        twice = "" if self.is_gap else " twice"
        says = f"on {day} the clocks of {self.zone} {verb} {times}{twice}"
        return f"{says}: it {_FATES[self.rule]} ({self.field}: {self.rule})"


def clock_changes(occurrences: Occurrences, after_us: int, until_us: int) -> Iterator[ClockChange]:
    """List the changes in a range that touch times of a schedule, in order; none where it follows elapsed time."""
    if not isinstance(occurrences, CronOccurrences) or occurrences.cron.follows_elapsed_time:
        return
    at_us = after_us
    while at_us <= until_us:
        segment = segment_at(occurrences.zone, at_us)
        if after_us < segment.start_us and (found := _met(occurrences, segment)) is not None:
            yield found
        at_us = segment.end_us


def note_of(occurrences: Occurrences, slot_us: int) -> str | None:
    """Say of a slot that it stands where the clocks change; None for all others."""
    if not isinstance(occurrences, CronOccurrences) or occurrences.cron.follows_elapsed_time:
        return None
    segment = segment_at(occurrences.zone, slot_us)
    if segment.start_us <= slot_us < segment.start_us + abs(segment.shift_us):
        found = _met(occurrences, segment)
        is_moved = segment.shift_us > 0 and not occurrences.shown_between(
            slot_us, slot_us + 1, segment.offset_us, limit=1
        )
        return str(found) if found is not None and (is_moved or segment.shift_us < 0) else None
    if segment.next_shift_us < 0 and slot_us >= segment.end_us + segment.next_shift_us:
        found = _met(occurrences, segment_at(occurrences.zone, segment.end_us))
        return None if found is None else str(found)
    return None


def _met(occurrences: CronOccurrences, segment: Segment) -> ClockChange | None:
    """Say what the change at the start of a segment does to a schedule; None if it touches none of its times."""
    shift_us, start_us = segment.shift_us, segment.start_us
    offset_us = segment.offset_us - max(0, shift_us)  # of the wall that would have shown, or shows again, the times
    times = occurrences.shown_between(start_us, start_us + abs(shift_us), offset_us, limit=_MOST)
    if not times:
        return None
    zone = occurrences.zone.key
    rule: Gap | Overlap = occurrences.gap if shift_us <= LONGEST_GAP_US else Gap.SKIP
    if shift_us < 0:
        rule = occurrences.overlap
    return ClockChange(start_us, shift_us > 0, zone, tuple(times), rule)
