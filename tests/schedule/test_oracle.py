"""Every question to a cron trigger, answered by the oracle too."""

import os
from dataclasses import dataclass
from random import Random  # noqa: TID251 - seeded chance: a failed case can be played again

import numpy as np
import pytest

from reconciler.model.policy import DayRule, Gap, Overlap
from reconciler.schedule.cron import CronError, parse
from reconciler.schedule.cronslots import CronOccurrences
from reconciler.schedule.zones import load_zone
from tests.schedule import oracle
from tests.schedule.oracle import DAY, Fires, Reading
from tests.schedule.strategies import ZONES, random_expression

SECOND = 10**6
HOUR = 3600
PROOF = bool(os.environ.get("RECONCILER_PROOF"))
CASES = 100_000 if PROOF else 2_000
PARTS = 20
"""The cases come in parts, so that a failure names a small one and two processes can share them."""
WINDOW = 400
"""Days of which every minute is listed; with seconds, fewer."""
CHANGING_ZONES = (
    "America/New_York",
    "Europe/London",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Beirut",
    "America/Havana",
    "America/Asuncion",
    "America/St_Johns",
    "Antarctica/Troll",
)


@dataclass(frozen=True)
class Case:
    """A trigger and an instant (seconds since 1970) around which it is asked."""

    expression: str
    zone: str
    gap: Gap
    overlap: Overlap
    day_rule: DayRule
    start: int

    @property
    def reading(self) -> Reading:
        return oracle.read(self.expression, both=self.day_rule is DayRule.AND)

    def occurrences(self) -> CronOccurrences:
        return CronOccurrences(
            parse(self.expression, day_rule=self.day_rule), load_zone(self.zone), self.gap, self.overlap
        )

    def fires(self, start: int, end: int) -> Fires:
        return oracle.fires(self.reading, self.zone, self.gap, self.overlap, start=start, end=end)


def random_case(chance: Random) -> Case:
    zone = chance.choice(ZONES)
    start = chance.randint(*((year - 1970) * 31_556_952 for year in (1990, 2060)))
    near = [at for at, _ in oracle.changes(zone, 1990, 2060) if abs(at - start) < 200 * DAY]
    if near and chance.random() < 0.6:
        start = chance.choice(near) + chance.randint(-3 * HOUR, 3 * HOUR)
    return Case(
        random_expression(chance, busy=chance.random() < 0.5),
        zone,
        chance.choice(list(Gap)),
        chance.choice(list(Overlap)),
        chance.choice(list(DayRule)),
        start,
    )


@pytest.mark.proof
@pytest.mark.timeout(3600 if PROOF else 120)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_triggers_fire_when_the_oracle_says(part: int) -> None:
    """S5; 100,000 cases in `make proof`."""
    for number in range(part, CASES, PARTS):
        chance = Random(number)
        case = random_case(chance)
        try:
            check(case, chance)
        except AssertionError as error:
            raise AssertionError(f"number {number}: {case}") from error


def check(case: Case, chance: Random) -> None:
    if not oracle.first_dates(case.reading, 0, count=1):
        with pytest.raises(CronError, match="never fires"):
            case.occurrences()
        return
    occurrences = case.occurrences()
    days = WINDOW if len(case.reading.seconds) == 1 else 5
    start, end = case.start - days * DAY // 4, case.start + days * DAY * 3 // 4
    expected = case.fires(start, end)
    if len(expected.fires):
        check_stretch(occurrences, expected, case.start, end, limit=8)
        check_points(occurrences, expected.fires, [case.start, *(chance.randrange(start, end) for _ in range(3))])
        for change in [at for at, _ in oracle.changes(case.zone, 1985, 2074) if start + DAY < at < end - 2 * DAY]:
            check_stretch(occurrences, expected, change - 2 * HOUR, change + 2 * HOUR, limit=12)
            check_points(occurrences, expected.fires, [change, change + chance.randrange(-HOUR, 2 * HOUR)])
    else:
        check_rare(case, occurrences)
    assert skipped(occurrences, start, end) == list(expected.skipped)


def check_stretch(occurrences: CronOccurrences, expected: Fires, after: int, until: int, *, limit: int) -> None:
    """Compare what lies in (after, until]."""
    low, high = np.searchsorted(expected.fires, [after, until], side="right")
    found = occurrences.between(after * SECOND, until * SECOND, limit=limit)
    assert found == [int(at) * SECOND for at in expected.fires[low:high][:limit]]


def check_points(occurrences: CronOccurrences, fires: oracle.Numbers, points: list[int]) -> None:
    """Compare the neighbours of instants, where the oracle knows both."""
    for point in points:
        later, earlier = np.searchsorted(fires, point, side="right"), np.searchsorted(fires, point, side="left")
        if later < len(fires):
            assert occurrences.next_after(point * SECOND) == int(fires[later]) * SECOND
        if earlier:
            assert occurrences.previous_before(point * SECOND) == int(fires[earlier - 1]) * SECOND


def check_rare(case: Case, occurrences: CronOccurrences) -> None:
    """Compare the first fire in years, which must be found from both sides."""
    for day in oracle.first_dates(case.reading, case.start // DAY + 2, count=5):
        if fires := oracle.fires_on(case.reading, day, case.zone, case.gap, case.overlap):
            assert occurrences.next_after(case.start * SECOND) == fires[0] * SECOND
            assert occurrences.previous_before(fires[0] * SECOND + 1) == fires[0] * SECOND
            return
    raise AssertionError("the oracle finds no fire on five dates")


def skipped(occurrences: CronOccurrences, start: int, end: int) -> list[int]:
    return [at // SECOND for at in occurrences.skipped_between(start * SECOND - 1, end * SECOND - 1, limit=100_000)]


@pytest.mark.parametrize("zone", CHANGING_ZONES)
def test_every_change_of_the_clocks_is_met_by_every_policy(zone: str) -> None:
    """Those of 2020 to 2037, with a schedule dense enough to fall into each gap and overlap."""
    changes = oracle.changes(zone, 2020, 2037)
    dense = ("*/10 0-23 * * *", "7 1-3,22-23,0 * * *", "*/15 * * * *", "30 59 0-23 * * *")

    for change, _ in changes:
        for expression in dense:
            for gap in Gap:
                for overlap in Overlap:
                    case = Case(expression, zone, gap, overlap, DayRule.OR, change)
                    start, end = change - 5 * HOUR, change + 5 * HOUR
                    expected = case.fires(start, end)
                    occurrences = case.occurrences()
                    assert occurrences.between(start * SECOND - 1, end * SECOND - 1, limit=1000) == [
                        int(at) * SECOND for at in expected.fires
                    ], case
                    assert skipped(occurrences, start, end) == list(expected.skipped), case
                    check_points(occurrences, expected.fires, [change - 1, change, change + 1, end])

    assert len(changes) > 5
