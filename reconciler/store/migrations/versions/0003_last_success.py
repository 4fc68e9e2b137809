"""When a definition last succeeded is found by index."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_OLD = "ix_run_history_definition_id_finished_us"
_NEW = "ix_run_history_definition_id_state_finished_us"


def upgrade() -> None:
    op.create_index(_NEW, "run_history", ["definition_id", "state", "finished_us"])
    op.drop_index(_OLD, "run_history")


def downgrade() -> None:
    op.create_index(_OLD, "run_history", ["definition_id", "finished_us"])
    op.drop_index(_NEW, "run_history")
