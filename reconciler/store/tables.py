"""The tables: what is declared, what is alive, what is over, and what did not happen.

Definitions, live runs, history and the slot ledger are kept apart on purpose: the live table stays narrow and small,
history only grows, and no retention can ever revive a slot. Instants are integer microseconds (`_us`), states are the
words of `reconciler.model.run`, and each CHECK says the same truth as the code.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from reconciler.model.log import OutputStream
from reconciler.model.run import HELD, LIVE, TERMINAL, WAITING, AttemptOutcome, RunState
from reconciler.store import columns, queue_tables, trigger_tables  # noqa: F401 - so that the metadata holds every table
from reconciler.store.columns import Big, identity, one_of, partial

metadata: Final = columns.metadata

meta: Final = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

leader: Final = Table(
    "leader",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    # UNIQUE makes a takeover a key change: FOR KEY SHARE on the row then stops it, and lets the renewal pass.
    Column("term", BigInteger, nullable=False, unique=True),
    Column("owner", Text, nullable=False, server_default=""),
    Column("acquired_us", BigInteger, nullable=False, server_default="0"),
    Column("expires_us", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("id = 1", name="one_row"),
)

sources: Final = Table(
    "sources",
    metadata,
    Column("name", Text, primary_key=True),
    Column("path", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("revision", Text, nullable=False, server_default=""),
    Column("tree_digest", Text, nullable=False, server_default=""),
    Column("applied_us", BigInteger),
)

PASS_STATES: Final = ("Requested", "Running", "Applied", "Unchanged", "Invalid", "Refused", "Failed")

passes: Final = Table(
    "passes",
    metadata,
    identity(),
    Column("source", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("requested_us", BigInteger, nullable=False),
    Column("expect_digest", Text),
    Column("term", BigInteger),
    Column("started_us", BigInteger),
    Column("finished_us", BigInteger),
    Column("revision", Text),
    Column("plan_digest", Text),
    Column("deletion_digest", Text),
    Column("report", Text),
    CheckConstraint(one_of("state", PASS_STATES), name="state"),
    partial("ix_passes_requested", "id", where="state = 'Requested'"),
    sqlite_autoincrement=True,
)

staged_definitions: Final = Table(
    "staged_definitions",
    metadata,
    Column("pass_id", Big, ForeignKey("passes.id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("uid", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("file", Text, nullable=False),
    Column("line", Integer, nullable=False),
    Column("suspended", Boolean, nullable=False),
    Column("queue", Text),
    Column("handler", Text),
    Column("priority", SmallInteger),
)

approvals: Final = Table(
    "approvals",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("actor", Text, nullable=False),
    Column("approved_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
)

requirements: Final = Table(
    "requirements",
    metadata,
    identity(),
    Column("queue", Text, nullable=False),
    Column("handler", Text, nullable=False),
    UniqueConstraint("queue", "handler"),
    sqlite_autoincrement=True,
)
"""What a run asks of a node, interned, so that the live row holds one number."""

definitions: Final = Table(
    "definitions",
    metadata,
    identity(),
    Column("uid", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("observed_generation", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("file", Text, nullable=False),
    Column("line", Integer, nullable=False),
    Column("revision", Text, nullable=False),
    Column("suspended", Boolean, nullable=False),
    # What runs get of a job; other kinds have none.
    Column("requirement_id", Big, ForeignKey("requirements.id")),
    Column("priority", SmallInteger),
    Column("condition", Text),
    Column("created_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("deleted_us", BigInteger),
    partial("uq_definitions_live_name", "kind", "name", where="deleted_us IS NULL", unique=True),
    Index("ix_definitions_source_deleted_us", "source", "deleted_us"),
    sqlite_autoincrement=True,
)

definition_versions: Final = Table(
    "definition_versions",
    metadata,
    Column("definition_id", Big, ForeignKey("definitions.id"), primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("revision", Text, nullable=False),
    Column("applied_us", BigInteger, nullable=False),
)

nodes: Final = Table(
    "nodes",
    metadata,
    identity(),
    # UNIQUE makes "declare dead" a key change: it waits for claims that hold the row FOR KEY SHARE.
    Column("epoch", BigInteger, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("secret_hash", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("queues", Text),
    Column("handlers", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("registered_us", BigInteger, nullable=False),
    Column("heartbeat_us", BigInteger, nullable=False),
    Column("lease_until_us", BigInteger, nullable=False),
    Column("ended_by", Text),
    Column("tzdata", Text),
    CheckConstraint(one_of("state", ("Active", "Draining", "Dead")), name="state"),
    partial("ix_nodes_alive_lease_until_us", "lease_until_us", where="state <> 'Dead'"),
    sqlite_autoincrement=True,
)


def _goes_with_the_hold(column: str) -> CheckConstraint:
    """A run holds a place no longer than a node holds the run."""
    return CheckConstraint(f"{column} IS NULL OR {one_of('state', HELD)}", name=f"{column}_goes_with_the_hold")


runs: Final = Table(
    "runs",
    metadata,
    identity(),
    Column("definition_id", Big, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("trigger_id", Big),
    Column("slot_us", BigInteger, nullable=False),
    Column("requirement_id", Big, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("order_key", BigInteger, nullable=False),
    Column("due_us", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("lost_leases", Integer, nullable=False, server_default="0"),
    Column("node_id", Big),
    Column("started_us", BigInteger),
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    Column("has_body", Boolean, nullable=False, server_default=text("false")),
    Column("created_us", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("queue_place_id", Big, _goes_with_the_hold("queue_place_id")),
    Column("global_place_id", Big, _goes_with_the_hold("global_place_id")),
    Column("expires_us", BigInteger),
    CheckConstraint(one_of("state", LIVE), name="live_state"),
    CheckConstraint(f"({one_of('state', HELD)}) = (node_id IS NOT NULL)", name="held_runs_have_a_node"),
    CheckConstraint("priority BETWEEN 0 AND 9", name="priority"),
    CheckConstraint("fence >= attempt", name="fence_grows_with_each_attempt"),
    partial("ix_runs_ready", "requirement_id", "order_key", "id", where=one_of("state", (RunState.PENDING,))),
    partial("ix_runs_sleeping", "due_us", "id", where=one_of("state", (RunState.SCHEDULED, RunState.RETRYING))),
    partial("ix_runs_held", "node_id", where=one_of("state", HELD)),
    partial("ix_runs_expires_us", "expires_us", where=f"expires_us IS NOT NULL AND {one_of('state', WAITING)}"),
    Index("ix_runs_definition_id", "definition_id"),
    partial("uq_runs_queue_place_id", "queue_place_id", where="queue_place_id IS NOT NULL", unique=True),
    partial("uq_runs_global_place_id", "global_place_id", where="global_place_id IS NOT NULL", unique=True),
    partial("uq_runs_slot", "trigger_id", "slot_us", where="trigger_id IS NOT NULL", unique=True),
    sqlite_autoincrement=True,
)
"""Live runs only: narrow rows, few indexes. Ready ones are found by what they ask for; no two hold one place."""

run_bodies: Final = Table(
    "run_bodies",
    metadata,
    Column("run_id", Big, primary_key=True, autoincrement=False),
    Column("parameters", Text),
    Column("idempotency_key", Text, unique=True),
)
"""What only some runs have of their own; it outlives the live row, so that a key finds its finished run."""

run_history: Final = Table(
    "run_history",
    metadata,
    Column("run_id", Big, primary_key=True, autoincrement=False),
    Column("definition_id", Big, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("trigger_id", Big),
    Column("slot_us", BigInteger, nullable=False),
    Column("requirement_id", Big, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("due_us", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("lost_leases", Integer, nullable=False),
    Column("node_id", Big),
    Column("created_us", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("started_us", BigInteger),
    Column("finished_us", BigInteger, nullable=False),
    Column("exit_code", Integer),
    Column("error", Text),
    CheckConstraint(one_of("state", TERMINAL), name="terminal_state"),
    Index("ix_run_history_definition_id_state_finished_us", "definition_id", "state", "finished_us"),
    Index("ix_run_history_finished_us", "finished_us"),
)

dead_letters: Final = Table(
    "dead_letters",
    metadata,
    Column("run_id", Big, primary_key=True, autoincrement=False),
    Column("definition_id", Big, nullable=False),
    Column("reason", Text, nullable=False),
    Column("last_outcome", Text, nullable=False),
    Column("error", Text),
    Column("parked_us", BigInteger, nullable=False),
    Index("ix_dead_letters_definition_id_parked_us", "definition_id", "parked_us"),
)

attempts: Final = Table(
    "attempts",
    metadata,
    Column("run_id", Big, primary_key=True, autoincrement=False),
    Column("fence", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", Integer, nullable=False),
    Column("node_id", Big, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("started_us", BigInteger),
    Column("finished_us", BigInteger, nullable=False),
    Column("exit_code", Integer),
    Column("error", Text),
    Column("output", Text, nullable=False, server_default=""),
    CheckConstraint(one_of("outcome", AttemptOutcome), name="outcome"),
)
"""One row per hold on a run, written when the hold ends."""

run_logs: Final = Table(
    "run_logs",
    metadata,
    Column("run_id", Big, primary_key=True, autoincrement=False),
    Column("fence", BigInteger, primary_key=True, autoincrement=False),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, nullable=False),
    Column("node_id", Big, nullable=False),
    Column("stream", Text, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    CheckConstraint(one_of("stream", OutputStream), name="stream"),
)
"""One row per line that a job printed, written while the job runs and when it ends; bounded per hold."""

audit: Final = Table(
    "audit",
    metadata,
    identity(),
    Column("at_us", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),
    sqlite_autoincrement=True,
)
