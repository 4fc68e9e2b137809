"""Queues: what they declare, the places of their caps, and other kinds of definition than jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
HELD = "state IN ('Claimed', 'Running')"
PLACES = ("queue_place", "global_place")


def upgrade() -> None:
    op.create_table(
        "queues",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("max_running", sa.Integer(), nullable=True),
        sa.Column("aging_us", sa.BigInteger(), nullable=False),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        sa.CheckConstraint("max_running > 0", name=op.f("ck_queues_max_running")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_queues")),
    )
    op.create_table(
        "places",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_places")),
        sa.UniqueConstraint("queue", "number", name=op.f("uq_places_queue_number")),
        sqlite_autoincrement=True,
    )
    _partial("ix_places_closed", "places", ["queue"], "NOT is_open")
    _let_runs_hold_places()
    _let_definitions_be_of_other_kinds()


def downgrade() -> None:
    raise NotImplementedError("queues cannot be taken out of a store again: restore a backup")


def _let_runs_hold_places() -> None:
    integer = "INTEGER" if op.get_bind().dialect.name == "sqlite" else "BIGINT"
    for place in PLACES:
        # Written out: SQLite takes a CHECK on an existing table only with the column that it comes with.
        op.execute(
            f"ALTER TABLE runs ADD COLUMN {place}_id {integer} "
            f"CONSTRAINT ck_runs_{place}_id_goes_with_the_hold CHECK ({place}_id IS NULL OR {HELD})"
        )
        _partial(f"uq_runs_{place}_id", "runs", [f"{place}_id"], f"{place}_id IS NOT NULL", unique=True)
    op.drop_index("ix_runs_ready", "runs")
    _partial("ix_runs_ready", "runs", ["requirement_id", "order_key", "id"], "state IN ('Pending')")


def _let_definitions_be_of_other_kinds() -> None:
    _let_be_empty("staged_definitions", {"queue": sa.Text(), "handler": sa.Text(), "priority": sa.SmallInteger()})
    _let_be_empty("definitions", {"requirement_id": BIG, "priority": sa.SmallInteger()})


def _let_be_empty(table: str, columns: Mapping[str, Any]) -> None:
    with op.batch_alter_table(table, table_kwargs={"sqlite_autoincrement": table == "definitions"}) as batch:
        for column, kind in columns.items():
            batch.alter_column(column, existing_type=kind, nullable=True)


def _partial(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    op.create_index(name, table, columns, unique=unique, postgresql_where=sa.text(where), sqlite_where=sa.text(where))
