"""How fast is the next fire time found, against cronsim and croniter?

    python -m tests.benchmarks.cron [--rounds 7] [--steps 400]

Zone Europe/Berlin. `next` walks from fire to fire with one compiled object. `parse + next` compiles and asks once, from
another start each time: `known` asks as the scheduler does, whose expressions recur, `unseen` spells each expression in
a way that was never compiled before. The three alternate in one run; medians, in microseconds, and how many times
longer the others take.

The bars: next at least 3x cronsim on common expressions, 20x on 29 February and rarer; 8x croniter; parse + next at
least 20x croniter.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from random import Random
from typing import Final
from zoneinfo import ZoneInfo

from croniter import croniter  # type: ignore[import-untyped]
from cronsim import CronSim

from reconciler.clock import SECOND_US
from reconciler.schedule.cron import parse
from reconciler.schedule.cronslots import CronOccurrences
from reconciler.schedule.zones import load_zone

COMMON: Final = (
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0 9 * * 1-5",
    "0 0 1 * *",
    "15,45 8-18 * * MON-FRI",
)
RARE: Final = ("0 0 29 2 *", "0 0 29 2 */6", "0 0 * 2 MON#5")
ZONE: Final = "Europe/Berlin"
START: Final = 1_780_000_000
NEXT_OF_CRONSIM: Final = {True: 3.0, False: 20.0}
NEXT_OF_CRONITER: Final = 8.0
WHOLE_OF_CRONITER: Final = 20.0

Turn = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Costs:
    """Median microseconds of one question, ours and theirs."""

    ours: float
    cronsim: float
    croniter: float
    unseen: float = 0.0


def ours_walking(expression: str, steps: int) -> Turn:
    occurrences = CronOccurrences(parse(expression), load_zone(ZONE))

    def turn() -> None:
        at: int | None = START * SECOND_US
        for _ in range(steps):
            assert at is not None
            at = occurrences.next_after(at)

    return turn


def cronsim_walking(expression: str, steps: int) -> Turn:
    def turn() -> None:
        walk = CronSim(expression, local(START))
        for _ in range(steps):
            next(walk)

    return turn


def croniter_walking(expression: str, steps: int) -> Turn:
    def turn() -> None:
        walk = croniter(expression, local(START))
        for _ in range(steps):
            walk.get_next(datetime)

    return turn


def local(instant: int) -> datetime:
    return datetime.fromtimestamp(instant, UTC).astimezone(ZoneInfo(ZONE))


def starts(steps: int) -> list[int]:
    chance = Random(steps)
    return [START + chance.randrange(4 * 365 * 86_400) for _ in range(steps)]


def ours_anew(expression: str, steps: int) -> Turn:
    zone, asked = load_zone(ZONE), [start * SECOND_US for start in starts(steps)]

    def turn() -> None:
        for start in asked:
            CronOccurrences(parse(expression), zone).next_after(start)

    return turn


def ours_unseen(expression: str, steps: int) -> Turn:
    """Blanks and tabs at the end make a spelling that was never compiled."""
    zone, asked = load_zone(ZONE), [start * SECOND_US for start in starts(steps)]
    blanks = map("".join, product(" \t", repeat=18))
    spellings: Iterator[str] = (expression + tail for tail in blanks)

    def turn() -> None:
        for start in asked:
            CronOccurrences(parse(next(spellings)), zone).next_after(start)

    return turn


def cronsim_anew(expression: str, steps: int) -> Turn:
    asked = [local(start) for start in starts(steps)]

    def turn() -> None:
        for start in asked:
            next(CronSim(expression, start))

    return turn


def croniter_anew(expression: str, steps: int) -> Turn:
    asked = [local(start) for start in starts(steps)]

    def turn() -> None:
        for start in asked:
            croniter(expression, start).get_next(datetime)

    return turn


def microseconds(rounds: int, steps: int, *turns: Turn) -> list[float]:
    """Give the median microseconds of one step; the turns alternate."""
    taken: list[list[float]] = [[] for _ in turns]
    for _ in range(rounds):
        for turn, seen in zip(turns, taken, strict=True):
            began = time.perf_counter()
            turn()
            seen.append((time.perf_counter() - began) / steps * 1e6)
    return [statistics.median(seen) for seen in taken]


def walk(expression: str, rounds: int, steps: int) -> Costs:
    few = steps if expression in COMMON else 12  # walks of many years would end with the calendar of the others
    turns = [make(expression, few) for make in (ours_walking, cronsim_walking, croniter_walking)]
    return Costs(*microseconds(rounds, few, *turns))


def whole(expression: str, rounds: int, steps: int) -> Costs:
    few = steps if expression in COMMON else 50
    turns = [make(expression, few) for make in (ours_anew, cronsim_anew, croniter_anew, ours_unseen)]
    return Costs(*microseconds(rounds, few, *turns))


def head(name: str, *columns: str) -> str:
    return name.ljust(26 + name.startswith("\n")) + "".join(f"{column:>12}" for column in columns)


def row(name: str, *figures: float) -> str:
    return f"{name:<26}" + "".join(f"{figure:>12.1f}" for figure in figures)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args(arguments)
    missed: list[str] = []

    def bar(what: str, ratio: float, least: float) -> None:
        if ratio < least:
            missed.append(f"{what}: {ratio:.1f}x, below {least:g}x")

    print(head("next", "ours", "cronsim", "croniter", "x cronsim", "x croniter"))
    for expression in (*COMMON, *RARE):
        cost = walk(expression, options.rounds, options.steps)
        by_cronsim, by_croniter = cost.cronsim / cost.ours, cost.croniter / cost.ours
        print(row(expression, cost.ours, cost.cronsim, cost.croniter, by_cronsim, by_croniter))
        bar(f"{expression}: next, cronsim", by_cronsim, NEXT_OF_CRONSIM[expression in COMMON])
        bar(f"{expression}: next, croniter", by_croniter, NEXT_OF_CRONITER)
    print(head("\nparse + next", "known", "unseen", "cronsim", "croniter", "x known", "x unseen"))
    for expression in (*COMMON, *RARE):
        cost = whole(expression, options.rounds, options.steps)
        known, unseen = cost.croniter / cost.ours, cost.croniter / cost.unseen
        print(row(expression, cost.ours, cost.unseen, cost.cronsim, cost.croniter, known, unseen))
        bar(f"{expression}: parse + next, croniter", known, WHOLE_OF_CRONITER)
    print("\n" + ("\n".join(missed) or "every bar is held"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
