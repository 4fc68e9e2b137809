"""The time engine: rules of triggers, reasons of the ledger, pauses, calendars, deadlines; who ended a session."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
REASONS = (
    "BlackoutSkipped",
    "CatchUpCap",
    "ClockStep",
    "DeadlineExpired",
    "Deferred",
    "DefinitionRemoved",
    "GapSkipped",
    "MisfireSkipped",
    "Paused",
    "Suspended",
    "WindowPassed",
)


def upgrade() -> None:
    _extend_triggers()
    _extend_the_ledger()
    op.create_table(
        "pauses",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("paused_by", sa.Text(), nullable=False),
        sa.Column("paused_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=True),
        sa.Column("catch_up", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.CheckConstraint("until_us IS NULL OR until_us >= paused_us", name=op.f("ck_pauses_ends_after_it_began")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pauses")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_pauses_job", "pauses", ["job"])
    op.create_table(
        "calendars",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("windows", sa.Text(), nullable=False),
        sa.Column("resolved_with", sa.Text(), nullable=False),
        sa.Column("resolved_us", sa.BigInteger(), nullable=False),
        sa.Column("last_day", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_calendars")),
    )
    op.add_column("runs", sa.Column("expires_us", sa.BigInteger(), nullable=True))
    where = sa.text("expires_us IS NOT NULL AND state IN ('Blocked', 'Pending', 'Retrying', 'Scheduled')")
    op.create_index("ix_runs_expires_us", "runs", ["expires_us"], postgresql_where=where, sqlite_where=where)
    op.add_column("nodes", sa.Column("ended_by", sa.Text(), nullable=True))
    op.add_column("nodes", sa.Column("tzdata", sa.Text(), nullable=True))
    op.execute("UPDATE nodes SET ended_by = 'Lease' WHERE state = 'Dead'")


def downgrade() -> None:
    raise NotImplementedError("the ledger's reasons cannot be taken out of a store again: restore a backup")


def _extend_triggers() -> None:
    for column in (
        sa.Column("rules", sa.Text(), server_default="{}", nullable=False),
        sa.Column("suspended", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("settled_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("revision", sa.Integer(), server_default="0", nullable=False),
    ):
        op.add_column("triggers", column)


def _extend_the_ledger() -> None:
    listed = ", ".join(f"'{reason}'" for reason in REASONS)
    with op.batch_alter_table("slots") as batch:
        batch.add_column(sa.Column("detail", sa.Text(), nullable=True))
        batch.drop_constraint(op.f("ck_slots_reason"), type_="check")
        batch.create_check_constraint(op.f("ck_slots_reason"), f"reason IN ({listed})")
