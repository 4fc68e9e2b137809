"""The foundation: definitions, triggers, live runs, history, ledger, nodes, leader, passes, audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("approved_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_approvals")),
    )
    op.create_table(
        "attempts",
        sa.Column("run_id", BIG, autoincrement=False, nullable=False),
        sa.Column("fence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("node_id", BIG, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("finished_us", sa.BigInteger(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("output", sa.Text(), server_default="", nullable=False),
        sa.CheckConstraint(
            "outcome IN ('Cancelled', 'Failed', 'HandedBack', 'LostLease', 'Succeeded', 'TimedOut')",
            name=op.f("ck_attempts_outcome"),
        ),
        sa.PrimaryKeyConstraint("run_id", "fence", name=op.f("pk_attempts")),
    )
    op.create_table(
        "audit",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "dead_letters",
        sa.Column("run_id", BIG, autoincrement=False, nullable=False),
        sa.Column("definition_id", BIG, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("last_outcome", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("parked_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_dead_letters")),
    )
    op.create_index(
        "ix_dead_letters_definition_id_parked_us", "dead_letters", ["definition_id", "parked_us"], unique=False
    )
    op.create_table(
        "leader",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), server_default="", nullable=False),
        sa.Column("acquired_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("expires_us", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_leader_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leader")),
        sa.UniqueConstraint("term", name=op.f("uq_leader_term")),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "nodes",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("queues", sa.Text(), nullable=True),
        sa.Column("handlers", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("registered_us", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_us", sa.BigInteger(), nullable=False),
        sa.Column("lease_until_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('Active', 'Dead', 'Draining')", name=op.f("ck_nodes_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("epoch", name=op.f("uq_nodes_epoch")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_nodes_alive_lease_until_us",
        "nodes",
        ["lease_until_us"],
        unique=False,
        postgresql_where=sa.text("state <> 'Dead'"),
        sqlite_where=sa.text("state <> 'Dead'"),
    )
    op.create_table(
        "passes",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("requested_us", sa.BigInteger(), nullable=False),
        sa.Column("expect_digest", sa.Text(), nullable=True),
        sa.Column("term", sa.BigInteger(), nullable=True),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("finished_us", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.Text(), nullable=True),
        sa.Column("plan_digest", sa.Text(), nullable=True),
        sa.Column("deletion_digest", sa.Text(), nullable=True),
        sa.Column("report", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('Applied', 'Failed', 'Invalid', 'Refused', 'Requested', 'Running', 'Unchanged')",
            name=op.f("ck_passes_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_passes")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_passes_requested",
        "passes",
        ["id"],
        unique=False,
        postgresql_where=sa.text("state = 'Requested'"),
        sqlite_where=sa.text("state = 'Requested'"),
    )
    op.create_table(
        "requirements",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("handler", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requirements")),
        sa.UniqueConstraint("queue", "handler", name=op.f("uq_requirements_queue_handler")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "run_bodies",
        sa.Column("run_id", BIG, autoincrement=False, nullable=False),
        sa.Column("parameters", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_bodies")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_run_bodies_idempotency_key")),
    )
    op.create_table(
        "run_history",
        sa.Column("run_id", BIG, autoincrement=False, nullable=False),
        sa.Column("definition_id", BIG, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("trigger_id", BIG, nullable=True),
        sa.Column("slot_us", sa.BigInteger(), nullable=False),
        sa.Column("requirement_id", BIG, nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("due_us", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lost_leases", sa.Integer(), nullable=False),
        sa.Column("node_id", BIG, nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("finished_us", sa.BigInteger(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('Cancelled', 'DeadLettered', 'Failed', 'Skipped', 'Succeeded', 'TimedOut', 'UpstreamFailed')",
            name=op.f("ck_run_history_terminal_state"),
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_history")),
    )
    op.create_index(
        "ix_run_history_definition_id_finished_us", "run_history", ["definition_id", "finished_us"], unique=False
    )
    op.create_index("ix_run_history_finished_us", "run_history", ["finished_us"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("definition_id", BIG, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("trigger_id", BIG, nullable=True),
        sa.Column("slot_us", sa.BigInteger(), nullable=False),
        sa.Column("requirement_id", BIG, nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("order_key", sa.BigInteger(), nullable=False),
        sa.Column("due_us", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lost_leases", sa.Integer(), server_default="0", nullable=False),
        sa.Column("node_id", BIG, nullable=True),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("has_body", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(state IN ('Claimed', 'Running')) = (node_id IS NOT NULL)", name=op.f("ck_runs_held_runs_have_a_node")
        ),
        sa.CheckConstraint(
            "state IN ('Blocked', 'Claimed', 'Pending', 'Retrying', 'Running', 'Scheduled')",
            name=op.f("ck_runs_live_state"),
        ),
        sa.CheckConstraint("fence >= attempt", name=op.f("ck_runs_fence_grows_with_each_attempt")),
        sa.CheckConstraint("priority BETWEEN 0 AND 9", name=op.f("ck_runs_priority")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_runs_definition_id", "runs", ["definition_id"], unique=False)
    op.create_index(
        "ix_runs_held",
        "runs",
        ["node_id"],
        unique=False,
        postgresql_where=sa.text("state IN ('Claimed', 'Running')"),
        sqlite_where=sa.text("state IN ('Claimed', 'Running')"),
    )
    op.create_index(
        "ix_runs_ready",
        "runs",
        ["order_key", "id"],
        unique=False,
        postgresql_where=sa.text("state IN ('Pending')"),
        sqlite_where=sa.text("state IN ('Pending')"),
    )
    op.create_index(
        "ix_runs_sleeping",
        "runs",
        ["due_us", "id"],
        unique=False,
        postgresql_where=sa.text("state IN ('Retrying', 'Scheduled')"),
        sqlite_where=sa.text("state IN ('Retrying', 'Scheduled')"),
    )
    op.create_index(
        "uq_runs_slot",
        "runs",
        ["trigger_id", "slot_us"],
        unique=True,
        postgresql_where=sa.text("trigger_id IS NOT NULL"),
        sqlite_where=sa.text("trigger_id IS NOT NULL"),
    )
    op.create_table(
        "sources",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), server_default="", nullable=False),
        sa.Column("tree_digest", sa.Text(), server_default="", nullable=False),
        sa.Column("applied_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_sources")),
    )
    op.create_table(
        "definitions",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("observed_generation", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        sa.Column("requirement_id", BIG, nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.Column("deleted_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["requirement_id"], ["requirements.id"], name=op.f("fk_definitions_requirement_id_requirements")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_definitions")),
        sa.UniqueConstraint("uid", name=op.f("uq_definitions_uid")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_definitions_source_deleted_us", "definitions", ["source", "deleted_us"], unique=False)
    op.create_index(
        "uq_definitions_live_name",
        "definitions",
        ["kind", "name"],
        unique=True,
        postgresql_where=sa.text("deleted_us IS NULL"),
        sqlite_where=sa.text("deleted_us IS NULL"),
    )
    op.create_table(
        "staged_definitions",
        sa.Column("pass_id", BIG, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("handler", sa.Text(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.ForeignKeyConstraint(["pass_id"], ["passes.id"], name=op.f("fk_staged_definitions_pass_id_passes")),
        sa.PrimaryKeyConstraint("pass_id", "kind", "name", name=op.f("pk_staged_definitions")),
    )
    op.create_table(
        "definition_versions",
        sa.Column("definition_id", BIG, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("applied_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["definition_id"], ["definitions.id"], name=op.f("fk_definition_versions_definition_id_definitions")
        ),
        sa.PrimaryKeyConstraint("definition_id", "generation", name=op.f("pk_definition_versions")),
    )
    op.create_table(
        "triggers",
        sa.Column("id", BIG, sa.Identity(always=False), nullable=False),
        sa.Column("definition_id", BIG, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("timing", sa.Text(), nullable=False),
        sa.Column("activation", sa.Integer(), nullable=False),
        sa.Column("activated_us", sa.BigInteger(), nullable=False),
        sa.Column("cursor_us", sa.BigInteger(), nullable=False),
        sa.Column("next_fire_us", sa.BigInteger(), nullable=True),
        sa.Column("removed_us", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("removed_us IS NULL OR next_fire_us IS NULL", name=op.f("ck_triggers_removed_never_fires")),
        sa.ForeignKeyConstraint(
            ["definition_id"], ["definitions.id"], name=op.f("fk_triggers_definition_id_definitions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_triggers")),
        sa.UniqueConstraint("definition_id", "name", name=op.f("uq_triggers_definition_id_name")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_triggers_next_fire_us",
        "triggers",
        ["next_fire_us"],
        unique=False,
        postgresql_where=sa.text("next_fire_us IS NOT NULL"),
        sqlite_where=sa.text("next_fire_us IS NOT NULL"),
    )
    op.create_table(
        "slots",
        sa.Column("trigger_id", BIG, autoincrement=False, nullable=False),
        sa.Column("slot_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("definition_id", BIG, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("recorded_us", sa.BigInteger(), nullable=False),
        sa.Column("recorded_by", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "reason IN ('CatchUpCap', 'DefinitionRemoved', 'MisfireSkipped', 'Suspended', 'WindowPassed')",
            name=op.f("ck_slots_reason"),
        ),
        sa.ForeignKeyConstraint(["trigger_id"], ["triggers.id"], name=op.f("fk_slots_trigger_id_triggers")),
        sa.PrimaryKeyConstraint("trigger_id", "slot_us", name=op.f("pk_slots")),
    )
    op.create_index("ix_slots_definition_id_slot_us", "slots", ["definition_id", "slot_us"], unique=False)
    op.execute("INSERT INTO leader (id, term) VALUES (1, 0)")
    op.execute("INSERT INTO meta (key, value) VALUES ('minimum_protocol', '1')")


def downgrade() -> None:
    raise NotImplementedError("the first migration has nothing below it: restore a backup instead")
