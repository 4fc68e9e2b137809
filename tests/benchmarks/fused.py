"""Experiment 3: are results written and new runs claimed in one transaction, or in two?

    python -m tests.benchmarks.fused [--runs 10000] [--repeats 3]

The same functions of the store either way, one node, default durability; the two ways alternate.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from reconciler.model.lease import Session
from reconciler.model.run import AttemptOutcome, Claim, Outcome
from reconciler.store import claiming, claims
from reconciler.store.database import Database, Tx
from tests.benchmarks.drain import fill, prepare, rate
from tests.postgres import PostgresServer

BATCHES = (1, 10, 100)


def results(won: Sequence[Claim]) -> list[Outcome]:
    return [Outcome(each.run_id, each.fence, each.attempt, AttemptOutcome.SUCCEEDED, 0, 5) for each in won]


def claimed(tx: Tx, session: Session, batch: int) -> list[Claim]:
    return claiming.claim(tx, session, limit=batch, handlers=["slow"], queues=None)


def apart(database: Database, session: Session, batch: int) -> Callable[[], int]:
    def turn() -> int:
        won = database.tx(lambda tx: claimed(tx, session, batch))
        if won:
            database.tx(lambda tx: claims.finish(tx, session, results(won)))
        return len(won)

    return turn


def fused(database: Database, session: Session, batch: int) -> Callable[[], int]:
    held: list[Claim] = []

    def both(tx: Tx) -> list[Claim]:
        if held:
            claims.finish(tx, session, results(held))
        return claimed(tx, session, batch)

    def turn() -> int:
        held[:] = database.tx(both)
        return len(held)

    return turn


def measure(url: str, total: int, repeats: int) -> None:
    database, session = prepare(url)
    print("SQLite, FULL" if database.is_sqlite else "PostgreSQL", f"(runs/s, median of {repeats})")
    for batch in BATCHES:
        ways = {"apart": apart(database, session, batch), "fused": fused(database, session, batch)}
        found: dict[str, list[float]] = {name: [] for name in ways}
        number = total if batch > 1 else total // 10
        for _ in range(repeats):
            for name, turn in ways.items():
                fill(database, number)
                found[name].append(rate(turn))
        two, one = (statistics.median(found[name]) for name in ways)
        print(f"  batch {batch:>4}: apart {two:>8,.0f}   fused {one:>8,.0f}   fused / apart {one / two:.2f}")
    database.close()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        measure(f"sqlite:///{Path(folder) / 'store.db'}", chosen.runs, chosen.repeats)
    with PostgresServer.find() as server:
        measure(server.create_database(), chosen.runs, chosen.repeats)


if __name__ == "__main__":
    main()
