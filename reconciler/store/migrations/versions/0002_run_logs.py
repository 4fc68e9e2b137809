"""Run logs: what jobs print, line by line."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "run_logs",
        sa.Column("run_id", BIG, autoincrement=False, nullable=False),
        sa.Column("fence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("node_id", BIG, nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.CheckConstraint("stream IN ('stderr', 'stdout')", name=op.f("ck_run_logs_stream")),
        sa.PrimaryKeyConstraint("run_id", "fence", "seq", name=op.f("pk_run_logs")),
    )


def downgrade() -> None:
    op.drop_table("run_logs")
