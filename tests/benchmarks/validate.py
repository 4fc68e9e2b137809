"""How fast is a tree validated, against bare parsing and a reused validator; and how soon does the command answer?

    python -m tests.benchmarks.validate [--definitions 2000] [--repeats 5]

Bare: yaml's C parser and one reused jsonschema validator per kind and handler over the same files, nothing else. Ours:
the process `reconciler validate`, interpreter and imports included. The bars: ours at most twice bare plus 0.4 s, and
`reconciler --help` at most 0.15 s above `python -c pass`. All alternate in one run; medians.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft7Validator

from reconciler.spec.schemas import handler_types, schema

FACTOR: Final = 2.0
ALLOWANCE_SECONDS: Final = 0.4
HELP_SECONDS: Final = 0.15
DOCUMENT: Final = """\
# yaml-language-server: $schema=../schemas/job.schema.json
apiVersion: reconciler/v1
kind: Job
metadata:
  name: export-{number}
  labels: {{team: reporting, tier: gold}}
spec:
  description: Yesterday's sales of region {number}, as CSV.
  owner: reporting@northstar.example
  handler:
    type: command
    with:
      argv: [northstar-report, --day, '{{{{ slot | date("%Y-%m-%d") }}}}', --region, "{{{{ parameters.region }}}}"]
      env: [{{name: REPORT_FORMAT, value: csv}}]
  parameters:
    - {{name: region, schema: {{type: string, enum: [eu, us]}}, default: eu}}
  triggers:
    - name: weekdays
      cron: {minute} {hour} * * 1-5
      timeZone: Europe/Berlin
      parameters: {{region: us}}
    - {{name: pulse, every: 15m, anchor: "2026-01-01T00:00:00Z"}}
  queue: queue-{queue}
  priority: {priority}
  timeout: 1h
  retry: {{maxAttempts: 3, backoff: ExponentialJitter, initial: 10s, max: 10m}}
"""
QUEUE: Final = "apiVersion: reconciler/v1\nkind: Queue\nmetadata: {{name: queue-{number}}}\nspec: {{max: 8}}\n"


def write(folder: Path, definitions: int) -> None:
    for number in range(10):
        (folder / f"queue-{number}.yaml").write_text(QUEUE.format(number=number), encoding="utf-8")
    for number in range(definitions):
        text = DOCUMENT.format(
            number=number, minute=number % 60, hour=number % 24, queue=number % 10, priority=number % 10
        )
        (folder / f"export-{number}.yaml").write_text(text, encoding="utf-8")


def bare(folder: Path) -> Callable[[], None]:
    kinds = {kind: Draft7Validator(schema(kind.lower())) for kind in ("Job", "Queue")}
    handlers = {name: Draft7Validator(schema(f"handlers/{name}")) for name in handler_types()}

    def check(document: Any) -> None:
        assert kinds[document["kind"]].is_valid(document)
        if document["kind"] == "Job":
            handler = document["spec"]["handler"]
            assert handlers[handler["type"]].is_valid(handler.get("with", {}))

    def turn() -> None:
        for file in sorted(folder.iterdir()):
            for document in yaml.load_all(file.read_bytes(), Loader=yaml.CSafeLoader):
                check(document)

    return turn


def command(*arguments: str) -> Callable[[], None]:
    def turn() -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    return turn


def seconds(turn: Callable[[], None]) -> float:
    started = time.perf_counter()
    turn()
    return time.perf_counter() - started


def measure(turns: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(repeats):
        for name, turn in turns.items():
            found[name].append(seconds(turn))
    return {name: statistics.median(each) for name, each in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--definitions", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), chosen.definitions)
        took = measure(
            {
                "bare": bare(Path(folder)),
                "ours": command("-m", "reconciler", "validate", folder),
                "help": command("-m", "reconciler", "--help"),
                "pass": command("-c", "pass"),
            },
            chosen.repeats,
        )
    bar = FACTOR * took["bare"] + ALLOWANCE_SECONDS
    print(f"validate, {chosen.definitions} definitions, median of {chosen.repeats}, in seconds")
    print(f"  bare parse and schema {took['bare']:.2f}   reconciler validate {took['ours']:.2f}", end="   ")
    print(f"ratio {took['ours'] / took['bare']:.2f}   bar {bar:.2f}: {'met' if took['ours'] <= bar else 'MISSED'}")
    above = took["help"] - took["pass"]
    print(f"  python -c pass {took['pass']:.3f}   reconciler --help {took['help']:.3f}", end="   ")
    print(f"above {above:.3f}   bar {HELP_SECONDS}: {'met' if above <= HELP_SECONDS else 'MISSED'}")


if __name__ == "__main__":
    main()
