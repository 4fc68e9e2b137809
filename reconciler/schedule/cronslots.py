"""The instants at which a cron trigger fires, through every change of the clocks.

A schedule with fixed hours keeps civil time: its `gap` rule places a local time that the clocks skip, its `overlap`
rule picks among the two instants of a local time that they show twice. A schedule with a star in the hour follows
elapsed time: whatever the wall shows fires, so none is starved or doubled.
Everything here counts in instants, microseconds since the epoch; a cron knows naive local seconds, and a segment's
offset lies between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from reconciler.clock import SECOND_US
from reconciler.model.policy import Gap, Overlap
from reconciler.schedule.cron import Cron
from reconciler.schedule.zones import DAY_US, FIRST_US, LAST_US, Segment, segment_at

LONGEST_GAP_US: Final = 3 * 3600 * SECOND_US
"""A longer gap is no summer time but a day that a country left out: nothing of it is made up for."""


@dataclass(frozen=True, slots=True)
class CronOccurrences:
    """The slots of a cron expression in a zone."""

    cron: Cron
    zone: ZoneInfo
    gap: Gap = Gap.RUN_AFTER
    overlap: Overlap = Overlap.FIRST

    def next_after(self, after_us: int) -> int | None:
        """Give the first slot strictly later than `after_us`; None when there is no more."""
        at = after_us + 1 if after_us >= FIRST_US else FIRST_US
        if at >= LAST_US:
            return None
        segment = segment_at(self.zone, at)
        if segment.calm_from_us <= at < segment.calm_until_us:
            # The usual case, spelled out for speed: no time of the wall before `local` fires any more, by no rule.
            offset = segment.offset_us
            local = self.cron.at_or_after((at + offset - 1) // SECOND_US + 1)
            if local is None:
                return None
            slot = local * SECOND_US - offset
            if slot < segment.calm_until_us:
                return slot
            there = segment_at(self.zone, slot)
            slot += offset - there.offset_us
            if there.calm_from_us <= slot < there.calm_until_us:
                return slot
        return self._next_by_rules(at)

    def previous_before(self, before_us: int) -> int | None:
        """Give the last slot strictly earlier than `before_us`; None when there is none."""
        at = min(before_us, LAST_US) - 1
        while at >= FIRST_US:
            segment = segment_at(self.zone, at)
            opens, closes = self._bounds(segment)
            found = self._local_at_or_before(min(at, closes - 1), segment.offset_us)
            moved = self._moved_at_or_before(segment, at)
            if found is not None and found >= opens:
                return found if moved is None else max(found, moved)
            if moved is not None:
                return moved
            if found is None:
                return None
            # As in `_next_by_rules`, in the other direction.
            at = segment.start_us - 1 if segment.shift_us < 0 else min(segment.start_us - 1, found + 2 * DAY_US)
        return None

    def between(self, after_us: int, until_us: int, *, limit: int) -> list[int]:
        """List at most `limit` slots, oldest first, that are later than `after_us` and not later than `until_us`."""
        slots: list[int] = []
        slot = self.next_after(after_us)
        while slot is not None and slot <= until_us and len(slots) < limit:
            slots.append(slot)
            slot = self.next_after(slot)
        return slots

    def skipped_between(self, after_us: int, until_us: int, *, limit: int) -> list[int]:
        """List at most `limit` local times that the gap rule skipped, oldest first, as the instants of `Shift`.

        That is: what the wall would have shown, had the clocks not been changed. An instant at which the trigger fires
        anyway is left out, so each has one fate.
        """
        skipped: list[int] = []
        at = max(after_us + 1, FIRST_US)
        until = min(until_us, LAST_US - 1)
        while at <= until and len(skipped) < limit:
            segment = segment_at(self.zone, at)
            if self._skips(segment):
                before = segment.offset_us - segment.shift_us
                instant = self._local_at_or_after(at, before)
                while instant is not None and instant < segment.calm_from_us and instant <= until:
                    if self.next_after(instant - 1) != instant:
                        skipped.append(instant)
                    if len(skipped) == limit:
                        break
                    instant = self._local_at_or_after(instant + 1, before)
            at = segment.end_us
        return skipped

    def shown_between(self, start_us: int, end_us: int, offset_us: int, *, limit: int) -> list[int]:
        """List matching times that a wall with this offset shows in [start, end), as naive local microseconds."""
        shown: list[int] = []
        at = self._local_at_or_after(start_us, offset_us)
        while at is not None and at < end_us and len(shown) < limit:
            shown.append(at + offset_us)
            at = self._local_at_or_after(at + 1, offset_us)
        return shown

    @property
    def _keeps_civil_time(self) -> bool:
        return not self.cron.follows_elapsed_time

    def _next_by_rules(self, at: int) -> int | None:
        while at < LAST_US:
            segment = segment_at(self.zone, at)
            opens, closes = self._bounds(segment)
            found = self._local_at_or_after(max(at, opens), segment.offset_us)
            moved = self._moved_at_or_after(segment, at)
            if found is not None and found < closes:
                return found if moved is None else min(found, moved)
            if moved is not None:
                return moved
            if found is None:
                return None
            # A rare schedule jumps near its next local date, unless the wall is about to show some times again.
            at = segment.end_us if segment.next_shift_us < 0 else max(segment.end_us, found - 2 * DAY_US)
        return None

    def _bounds(self, segment: Segment) -> tuple[int, int]:
        """Give the instants of a segment at which local times count: without the showings that `overlap` rules out."""
        opens, closes = segment.start_us, segment.end_us
        if self._keeps_civil_time:
            if segment.shift_us < 0 and self.overlap is Overlap.FIRST:
                opens -= segment.shift_us
            if segment.next_shift_us < 0 and self.overlap is Overlap.SECOND:
                closes += segment.next_shift_us
        return opens, closes

    def _moved_at_or_after(self, segment: Segment, at: int) -> int | None:
        """Give the first instant from `at` on to which the gap rule moves a local time skipped at the start."""
        if not self._moves(segment):
            return None
        if self.gap is Gap.RUN_AFTER and at > segment.start_us:
            return None
        moved = self._local_at_or_after(max(at, segment.start_us), segment.offset_us - segment.shift_us)
        if moved is None or moved >= segment.calm_from_us:
            return None
        return segment.start_us if self.gap is Gap.RUN_AFTER else moved

    def _moved_at_or_before(self, segment: Segment, at: int) -> int | None:
        """Give the last instant up to `at` to which the gap rule moves a local time skipped at the segment's start."""
        if not self._moves(segment):
            return None
        last = segment.calm_from_us - 1
        if self.gap is Gap.SHIFT:
            last = min(last, at)
        moved = self._local_at_or_before(last, segment.offset_us - segment.shift_us)
        if moved is None or moved < segment.start_us:
            return None
        return segment.start_us if self.gap is Gap.RUN_AFTER else moved

    def _moves(self, segment: Segment) -> bool:
        return 0 < segment.shift_us <= LONGEST_GAP_US and self.gap is not Gap.SKIP and self._keeps_civil_time

    def _skips(self, segment: Segment) -> bool:
        return segment.shift_us > 0 and self._keeps_civil_time and not self._moves(segment)

    def _local_at_or_after(self, at: int, offset: int) -> int | None:
        """Give the first instant from `at` on at which a wall with this offset shows a matching time."""
        local = self.cron.at_or_after((at + offset - 1) // SECOND_US + 1)
        return None if local is None else local * SECOND_US - offset

    def _local_at_or_before(self, at: int, offset: int) -> int | None:
        local = self.cron.at_or_before((at + offset) // SECOND_US)
        return None if local is None else local * SECOND_US - offset
