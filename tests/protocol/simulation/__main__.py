"""`make sim`: play one seed and print what happened, or many and print the failures."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

from reconciler.clock import SystemClock
from tests.protocol.mutants import MUTANTS
from tests.protocol.simulation.play import Player
from tests.protocol.simulation.shrink import smallest, told


def main(arguments: Sequence[str] | None = None) -> int:
    """Play; 1 when something broke."""
    options = _parser().parse_args(arguments)
    player = Player()
    planted = MUTANTS[options.mutant]() if options.mutant else contextlib.nullcontext()
    try:
        with planted:
            if options.seed is not None:
                return _play_one(player, options)
            return _play_many(player, options)
    finally:
        player.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.protocol.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one and print every statement")
    parser.add_argument("--steps", type=_numbers, help="the steps that may deviate from the plain order (default: all)")
    parser.add_argument("--seeds", type=int, default=1000, help="how many to play")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="plant a fault first")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def _play_one(player: Player, options: argparse.Namespace) -> int:
    verdict = player.play(options.seed, steps=options.steps, is_traced=True)
    _print(*verdict.trace, "", told(verdict, mutant=options.mutant))
    return 0 if verdict.holds else 1


def _play_many(player: Player, options: argparse.Namespace) -> int:
    clock = SystemClock()
    begun, failures = clock.elapsed(), 0
    for seed in range(options.first, options.first + options.seeds):
        verdict = player.play(seed)
        if not verdict.holds:
            failures += 1
            _print(told(smallest(player, verdict), mutant=options.mutant), "")
    minutes = (clock.elapsed() - begun) / 60
    speed = f"{options.seeds / minutes:.0f} schedules a minute"
    _print(f"{options.seeds} seeds, {failures} failed, {speed}")
    return 1 if failures else 0


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
