"""Random cron expressions of the whole grammar (but `H`), and random instants near clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random  # noqa: TID251 - seeded chance: a failed case can be played again
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from reconciler.clock import from_us, to_us
from reconciler.schedule.zones import load_zone, segment_at
from tests.schedule.oracle import MONTHS, WEEKDAYS

ZONES = (
    "UTC",
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
    "Pacific/Apia",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Asia/Gaza",
    "America/Caracas",
    "Antarctica/Troll",
    "Asia/Pyongyang",
    "Pacific/Chatham",
    "America/St_Johns",
    "Asia/Tehran",
    "Pacific/Kiritimati",
    "Antarctica/Casey",
    "Antarctica/Vostok",
)


def random_expression(chance: Random, *, busy: bool = False) -> str:
    """Write an expression; a busy one fires on most days, so that a short stretch shows something."""
    minute, hour = _field(chance, 0, 59), _field(chance, 0, 23)
    if busy:
        day = chance.choice(["*", "*", "?", "*/2", "1-31"])
        month = "*"
        weekday = chance.choice(["*", "*", "MON-SUN", "1-5", "*/2", _weekday(chance)])
    else:
        day = _usually_star(chance, _day(chance), "*?")
        month = _usually_star(chance, _month(chance), "*")
        weekday = _usually_star(chance, _weekday(chance), "*?")
    fields = [minute, hour, day, month, weekday]
    if chance.random() < 0.1:
        fields = [_field(chance, 0, 59), *fields]
    return chance.choice([" ", " ", "\t", "  "]).join(fields)


def _usually_star(chance: Random, text: str, stars: str) -> str:
    return chance.choice(stars) if chance.random() < 0.4 else text


def _field(chance: Random, low: int, high: int) -> str:
    kind = chance.random()
    if kind < 0.15:
        return "*"
    if kind < 0.3:
        return f"*/{chance.randint(1, high - low)}"
    if kind < 0.6:
        return str(chance.randint(low, high))
    return ",".join(_item(chance, low, high) for _ in range(chance.randint(1, 3)))


def _item(chance: Random, low: int, high: int) -> str:
    first, last = sorted(chance.randint(low, high) for _ in range(2))
    if first == last:
        return str(first)
    return f"{first}-{last}" + chance.choice(["", f"/{chance.randint(1, last - first)}"])


def _day(chance: Random) -> str:
    def item() -> str:
        return chance.choice(
            [
                _field(chance, 1, 31),
                "L",
                f"L-{chance.randint(1, 30)}",
                "LW",
                f"{chance.randint(1, 31)}W",
                str(chance.randint(28, 31)),
            ]
        )

    return ",".join(item() for _ in range(chance.choice([1, 1, 1, 2])))


def _month(chance: Random) -> str:
    return chance.choice([_field(chance, 1, 12), _names(chance, MONTHS), "2", "feb"])


def _weekday(chance: Random) -> str:
    def item() -> str:
        day = chance.choice([str(chance.randint(0, 7)), _cased(chance, chance.choice(WEEKDAYS))])
        return chance.choice(
            [
                _field(chance, 0, 6),
                _item(chance, 0, 7),
                _names(chance, WEEKDAYS),
                f"{day}#{chance.randint(1, 5)}",
                f"{day}L",
            ]
        )

    return ",".join(item() for _ in range(chance.choice([1, 1, 1, 2])))


def _names(chance: Random, names: list[str]) -> str:
    """Write a range of names, which wraps around where it runs backwards."""
    low, high = chance.choice(names), chance.choice(names)
    return _cased(chance, f"{low}-{high}")


def _cased(chance: Random, text: str) -> str:
    return chance.choice([str.upper, str.lower, str.title])(text)


def expressions() -> st.SearchStrategy[str]:
    """Any expression; those that name no date are rare."""
    return st.randoms(use_true_random=False).map(random_expression)


def busy_expressions() -> st.SearchStrategy[str]:
    """Expressions that fire on most days."""
    return st.randoms(use_true_random=False).map(lambda chance: random_expression(chance, busy=True))


def zones() -> st.SearchStrategy[ZoneInfo]:
    return st.sampled_from(ZONES).map(load_zone)


@st.composite
def instants(draw: st.DrawFn, zone: ZoneInfo) -> datetime:
    """An instant between 1980 and 2040: half of them within three hours of a clock change."""
    anywhere = datetime(1980, 1, 1, tzinfo=UTC) + timedelta(seconds=draw(st.integers(0, 60 * 365 * 86_400)))
    if draw(st.booleans()):
        return anywhere
    segment = segment_at(zone, to_us(anywhere))
    for _ in range(3):  # a seam between two pieces of one segment is no change
        if segment.next_shift_us:
            break
        segment = segment_at(zone, segment.end_us)
    return from_us(segment.end_us) + timedelta(seconds=draw(st.integers(-3 * 3600, 3 * 3600)))
