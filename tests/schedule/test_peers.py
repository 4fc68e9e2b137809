"""cronsim and croniter agree where their documented meaning is ours; where not, docs/schedules.md says why."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random  # noqa: TID251 - seeded chance: a failed case can be played again

import pytest
from croniter import croniter  # type: ignore[import-untyped]
from croniter.croniter import CroniterError  # type: ignore[import-untyped]
from cronsim import CronSim, CronSimError

from reconciler.clock import iso, to_us
from reconciler.schedule.cron import Cron, CronError, parse
from reconciler.schedule.cronslots import CronOccurrences
from reconciler.schedule.zones import load_zone
from tests.schedule import oracle
from tests.schedule.strategies import random_expression

Peer = Callable[[str, datetime], str]
"""Answers with an instant as text: aware datetimes of two zones are never equal in an overlap."""
STILL = ("UTC", "Asia/Kathmandu")
WHOLE_HOURS = ("America/New_York", "Europe/London", "Europe/Berlin")


def by_cronsim(expression: str, after: datetime) -> str:
    return iso(to_us(next(CronSim(expression, after))))


def by_croniter(expression: str, after: datetime) -> str:
    """With the switch that brings Vixie's star rule; the last Friday is L5 there."""
    theirs = re.sub(r"(\d)L", r"L\1", expression)
    return iso(to_us(croniter(theirs, after, implement_cron_bug=True).get_next(datetime)))


def by_us(expression: str, after: datetime) -> str:
    slot = CronOccurrences(parse(expression), load_zone(str(after.tzinfo))).next_after(to_us(after))
    assert slot is not None
    return iso(slot)


def shared_expression(chance: Random, *, fixed: bool = False) -> str:
    """Write what all three document alike; a `fixed` one has no star in minute and hour."""
    minute, hour = random_expression(chance, busy=True).split()[-5:-3]
    if fixed:
        minute, hour = f"{chance.randint(0, 59)}", ",".join(str(chance.randint(0, 4)) for _ in range(2))
    day = chance.choice(["*", "*", str(chance.randint(1, 28)), "10-20/3", "5,25", "L", "*/2"])
    month = chance.choice(["*", "*", "3-8", "JAN,JUL", "*/4"])
    weekday = chance.choice(["*", "*", "MON-FRI", "2-4", "0", "7", "1,3,5", "*/3"])
    if day == "*":
        weekday = chance.choice([weekday, f"{chance.randint(0, 6)}#{chance.randint(1, 4)}", f"{chance.randint(0, 6)}L"])
    return f"{minute} {hour} {day} {month} {weekday}"


def at(instant: int, zone: str) -> datetime:
    return datetime.fromtimestamp(instant, UTC).astimezone(oracle.zone_of(zone))


@pytest.mark.parametrize("peer", [by_cronsim, by_croniter])
@pytest.mark.parametrize("zone", STILL)
def test_peers_agree_where_no_clock_changes(peer: Peer, zone: str) -> None:
    for number in range(500):
        chance = Random(number)
        expression, after = shared_expression(chance), at(1_500_000_000 + chance.randrange(10**9), zone)
        assert peer(expression, after) == by_us(expression, after), (number, expression, after)


@pytest.mark.parametrize("zone", WHOLE_HOURS)
def test_cronsim_agrees_with_the_default_rules_for_fixed_times(zone: str) -> None:
    """It follows Debian's cron: a skipped time runs right after the gap, a doubled one once."""
    for change, _ in oracle.changes(zone, 2020, 2037):
        for number in range(10):
            chance = Random(change + number)
            expression, after = shared_expression(chance, fixed=True), at(change - chance.randrange(7200), zone)
            assert by_cronsim(expression, after) == by_us(expression, after), (change, number, expression, after)


BERLIN, HOWE = "Europe/Berlin", "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("peer", "asked", "ours", "theirs"),
    [
        # a star in the minute makes Debian's cron follow elapsed time too
        (by_cronsim, "* 2 * * * | 2026-03-29T00:42Z | Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"),
        # a change by half an hour
        (
            by_cronsim,
            "0 */5 * * * | 2026-10-03T15:00Z | Australia/Lord_Howe",
            "2026-10-03T18:00:00Z",
            "2026-10-03T23:00:00Z",
        ),
        # croniter runs what the clocks show twice, twice
        (by_croniter, "30 2 * * * | 2026-10-25T00:45Z | Europe/Berlin", "2026-10-26T01:30:00Z", "2026-10-25T01:30:00Z"),
        # a range over everything is a star to it
        (by_croniter, "0 0 * * WED-WED | 2026-01-01T12:00Z | UTC", "2026-01-07T00:00:00Z", "2026-01-02T00:00:00Z"),
        # a nearest workday outranks the weekday
        (by_croniter, "0 0 15W * 1 | 2026-01-01T12:00Z | UTC", "2026-01-05T00:00:00Z", "2026-01-15T00:00:00Z"),
    ],
)
def test_where_peers_differ(peer: Peer, asked: str, ours: str, theirs: str) -> None:
    expression, instant, zone = asked.split(" | ")
    after = at(to_us(datetime.fromisoformat(instant)) // 10**6, zone)

    assert by_us(expression, after) == ours
    assert peer(expression, after) == theirs


@pytest.mark.parametrize(
    ("peer", "expression"),
    [
        (by_cronsim, "0 0 15W * *"),
        (by_cronsim, "0 0 L-3 * *"),
        (by_cronsim, "0 0 ? * MON"),
        (by_cronsim, "0 0 * * FRI-MON"),
        (by_cronsim, "0 0 * NOV-FEB *"),
        (by_croniter, "0 0 L-3 * *"),
        (by_croniter, "0 0 LW * *"),
        (by_croniter, "0 0 * * 1,5#3"),
        (by_croniter, "0 0 2 * 5#2"),  # both must match there, and never do
    ],
)
def test_what_peers_do_not_read(peer: Peer, expression: str) -> None:
    assert isinstance(parse(expression), Cron)

    with pytest.raises((CronSimError, CroniterError)):
        peer(expression, at(0, "UTC"))


@pytest.mark.parametrize(
    ("peer", "expression"),
    [
        (by_cronsim, "5/15 * * * *"),
        (by_cronsim, "*/90 * * * *"),
        (by_croniter, "5/15 * * * *"),
        (by_croniter, "0 22-2 * * *"),
    ],
)
def test_what_only_peers_read(peer: Peer, expression: str) -> None:
    assert peer(expression, at(0, "UTC")).startswith("1970-01-01T")

    with pytest.raises(CronError):
        parse(expression)
