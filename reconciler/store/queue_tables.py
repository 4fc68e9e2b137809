"""The tables of limits: the queues that say something about their runs, and a row for each place that a cap allows.

A run that is held takes a place of its queue, and one of all queues together, by naming it in its live row. Nothing is
ever given back: the place is free when no live run names it, and the run's row goes, or is cleared, when its hold ends.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Integer, Table, Text, UniqueConstraint

from reconciler.store.columns import identity, metadata, partial

ALL_QUEUES: Final = "*"
"""Stands for all queues together; no queue can be called so."""

queues: Final = Table(
    "queues",
    metadata,
    Column("name", Text, primary_key=True),
    Column("max_running", Integer),
    Column("aging_us", BigInteger, nullable=False),
    Column("suspended", Boolean, nullable=False),
    CheckConstraint("max_running > 0", name="max_running"),
)
"""What is declared of queues; a queue without a row has no limit."""

places: Final = Table(
    "places",
    metadata,
    identity(),
    Column("queue", Text, nullable=False),
    Column("number", Integer, nullable=False),
    # A place that a smaller cap closed takes no new run; the one that holds it goes on.
    Column("is_open", Boolean, nullable=False),
    UniqueConstraint("queue", "number"),
    partial("ix_places_closed", "queue", where="NOT is_open"),
    sqlite_autoincrement=True,
)
