"""Experiment 8: what does a durable commit cost on SQLite, and what is left of that when commits are grouped?

    python -m tests.benchmarks.commits [--seconds 2]

Processes update rows of one file in transactions of 1 or 100, with synchronous=FULL and NORMAL. NORMAL may lose the
last commits when the power goes, and would then give a fence twice.
"""

import argparse
import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PROCESSES = (1, 2, 4, 8)
BATCHES = (1, 100)
ROWS = 10_000


def write(file: str, mode: str, batch: int, until: float) -> int:
    """Update rows until an instant; give how many."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=30)
    connection.execute(f"PRAGMA synchronous={mode}")
    done = 0
    while time.time() < until:
        connection.execute("BEGIN IMMEDIATE")
        at = done % (ROWS - batch)
        connection.execute("UPDATE rows SET fence = fence + 1 WHERE id > ? AND id <= ?", (at, at + batch))
        connection.execute("COMMIT")
        done += batch
    return done


def rows_per_second(mode: str, batch: int, processes: int, seconds: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "rows.db")
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, fence INTEGER NOT NULL)")
            connection.executemany("INSERT INTO rows VALUES (?, 0)", ((at,) for at in range(1, ROWS + 1)))
        connection.close()
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            until = time.time() + 0.5 + seconds
            done = pool.starmap(write, [(file, mode, batch, until)] * processes)
        return sum(done) / seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    seconds = parser.parse_args(arguments).seconds
    print("| rows in a transaction | processes | FULL rows/s | NORMAL rows/s | FULL / NORMAL |\n|---|---|---|---|---|")
    for batch in BATCHES:
        for processes in PROCESSES:
            full, normal = (rows_per_second(mode, batch, processes, seconds) for mode in ("FULL", "NORMAL"))
            print(f"| {batch} | {processes} | {full:,.0f} | {normal:,.0f} | {full / normal:.2f} |")


if __name__ == "__main__":
    main()
