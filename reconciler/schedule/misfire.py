"""What becomes of slots as they come due: each one runs, or is recorded with the reason why not (law S2).

One path for all: whatever a slot's definition says of it already (a calendar, a clock change) stands; then what people
said (suspended, paused); then its starting deadline; then lateness. A slot noticed within the on-time tolerance runs.
An older one was missed, after an outage, a change of leader or a step of the clock alike, and its trigger's policy
decides: `FireNow` runs the newest missed slot, `RunAllMissed` the newest `cap` of them, `SkipToNext` none; the window
bounds all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from reconciler.model.policy import Misfire, MisfirePolicy
from reconciler.model.run import SkipReason
from reconciler.model.trigger import Rules
from reconciler.schedule.timeline import Planned

Held = Callable[[int], tuple[SkipReason, str | None] | None]
"""Says of a slot whether people hold it back, and why."""


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of a decision, by the store's clock; a slot due up to `on_time_us` ago is on time.

    `stepped` are the instants that a step of the clock jumped over, if one just did.
    """

    us: int
    on_time_us: int
    stepped: tuple[int, int] | None = None


def _nobody(_slot_us: int) -> None:
    return None


DEFAULT_RULES: Final = Rules()
_BY_POLICY: Final = frozenset(
    {SkipReason.MISFIRE_SKIPPED, SkipReason.CATCH_UP_CAP, SkipReason.WINDOW_PASSED, SkipReason.CLOCK_STEP}
)


def settle(
    planned: Sequence[Planned],
    now: Now,
    *,
    rules: Rules = DEFAULT_RULES,
    held: Held = _nobody,
    following: Iterable[Planned] = (),
) -> list[Planned]:
    """Decide over slots, oldest first; those that run come back as they were, the others with their reason.

    `following` are slots that come after these and are not decided on: those that were missed too say which of these
    are the newest. It is read only as far as that takes (`Misfire.looks_past`).
    """
    decided = [_before_lateness(each, now, rules, held) for each in planned]
    missed = [at for at, each in enumerate(decided) if each.reason is None and _is_missed(each, now)]
    later = (each for each in following if _is_missed(each, now))
    newer = (each for each in later if _before_lateness(each, now, rules, held).reason is None)
    more = sum(1 for _ in islice(newer, rules.misfire.looks_past)) if missed else 0
    for index, at in enumerate(missed):
        decided[at] = _by_policy(decided[at], now, rules.misfire, newer=len(missed) - 1 - index + more)
    return decided


def count_missed(decided: Sequence[Planned], now: Now) -> int:
    """Count the slots over which a policy decided, whether they run or not."""
    return sum(each.reason in _BY_POLICY or (each.reason is None and _is_missed(each, now)) for each in decided)


def _is_missed(planned: Planned, now: Now) -> bool:
    return now.us - planned.due_us > now.on_time_us


def _before_lateness(planned: Planned, now: Now, rules: Rules, held: Held) -> Planned:
    if planned.reason is not None:
        return planned
    if because := held(planned.slot_us):
        reason, detail = because
        return replace(planned, reason=reason, detail=detail)
    deadline_us = rules.starting_deadline_us
    if deadline_us is not None and now.us > planned.due_us + deadline_us:
        return replace(planned, reason=SkipReason.DEADLINE_EXPIRED)
    return planned


def _by_policy(planned: Planned, now: Now, misfire: Misfire, *, newer: int) -> Planned:
    """Decide over a missed slot with `newer` missed ones after it."""
    reason = _reason(misfire, newer=newer, is_fresh=now.us - planned.due_us <= misfire.window_us)
    if reason is not None and now.stepped and now.stepped[0] < planned.due_us <= now.stepped[1]:
        return replace(planned, reason=SkipReason.CLOCK_STEP, detail=f"the clock jumped over it; then {reason}")
    return replace(planned, reason=reason)


def _reason(misfire: Misfire, *, newer: int, is_fresh: bool) -> SkipReason | None:
    match misfire.policy:
        case MisfirePolicy.SKIP_TO_NEXT:
            return SkipReason.MISFIRE_SKIPPED
        case MisfirePolicy.FIRE_NOW | MisfirePolicy.RUN_ALL_MISSED if not is_fresh:
            return SkipReason.WINDOW_PASSED
        case MisfirePolicy.FIRE_NOW:
            return SkipReason.MISFIRE_SKIPPED if newer else None
        case MisfirePolicy.RUN_ALL_MISSED:
            return SkipReason.CATCH_UP_CAP if newer >= misfire.cap else None
