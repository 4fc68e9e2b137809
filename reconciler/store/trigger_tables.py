"""The tables of time: triggers with their cursors, the slot ledger, pauses, and calendars as they were resolved."""

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
    Table,
    Text,
    UniqueConstraint,
    text,
)

from reconciler.model.run import SkipReason
from reconciler.store.columns import Big, identity, metadata, one_of, partial

triggers: Final = Table(
    "triggers",
    metadata,
    identity(),
    Column("definition_id", Big, ForeignKey("definitions.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("timing", Text, nullable=False),
    # What does not begin a new activation when it changes: misfire policy, starting deadline.
    Column("rules", Text, nullable=False, server_default="{}"),
    Column("suspended", Boolean, nullable=False, server_default=text("false")),
    Column("activation", Integer, nullable=False),
    Column("activated_us", BigInteger, nullable=False),
    Column("cursor_us", BigInteger, nullable=False),
    # The clock when the cursor last moved: no later activation begins before it, whatever the clock says then.
    Column("settled_us", BigInteger, nullable=False, server_default="0"),
    # Raised by everything that changes what settling reads of a trigger; a step that read the old value writes nothing.
    Column("revision", Integer, nullable=False, server_default="0"),
    Column("next_fire_us", BigInteger),
    Column("removed_us", BigInteger),
    UniqueConstraint("definition_id", "name"),
    CheckConstraint("removed_us IS NULL OR next_fire_us IS NULL", name="removed_never_fires"),
    partial("ix_triggers_next_fire_us", "next_fire_us", where="next_fire_us IS NOT NULL"),
    sqlite_autoincrement=True,
)

slots: Final = Table(
    "slots",
    metadata,
    Column("trigger_id", Big, ForeignKey("triggers.id"), primary_key=True, autoincrement=False),
    Column("slot_us", BigInteger, primary_key=True, autoincrement=False),
    Column("definition_id", Big, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text),
    Column("recorded_us", BigInteger, nullable=False),
    Column("recorded_by", Text, nullable=False),
    CheckConstraint(one_of("reason", SkipReason), name="reason"),
    Index("ix_slots_definition_id_slot_us", "definition_id", "slot_us"),
)
"""The ledger: one row per slot that did not become a run."""

pauses: Final = Table(
    "pauses",
    metadata,
    identity(),
    # The name, not the id: a job that is deleted and comes back is still paused.
    Column("job", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("paused_by", Text, nullable=False),
    Column("paused_us", BigInteger, nullable=False),
    Column("until_us", BigInteger),
    Column("catch_up", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("until_us IS NULL OR until_us >= paused_us", name="ends_after_it_began"),
    Index("ix_pauses_job", "job"),
    sqlite_autoincrement=True,
)
"""Pauses that are on, or over and not yet settled by a leader. The audit keeps what was."""

calendars: Final = Table(
    "calendars",
    metadata,
    Column("name", Text, primary_key=True),
    # Its windows, with every date that had to be looked up (holidays, iCalendar files) written out.
    Column("windows", Text, nullable=False),
    Column("resolved_with", Text, nullable=False),
    Column("resolved_us", BigInteger, nullable=False),
    Column("last_day", Text),
)
"""Calendars as the leader resolved them: every node, and every later leader, reads the same dates."""
