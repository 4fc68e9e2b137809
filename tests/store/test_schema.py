"""The schema: the migrations make what the code declares, and the database refuses what the code must never write."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Table, insert, inspect, text, update
from sqlalchemy.exc import IntegrityError

from reconciler.errors import SchemaVersionError
from reconciler.model.run import TERMINAL, AttemptOutcome, RunState
from reconciler.store import runs as run_steps
from reconciler.store import schema
from reconciler.store.database import Database
from reconciler.store.queue_tables import queues
from reconciler.store.tables import attempts, leader, metadata, nodes, passes, run_history, runs
from reconciler.store.trigger_tables import slots, triggers
from tests.store.cast import Store, job

_SQLITE_OBJECTS: Final = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' AND sql IS NOT NULL"
_POSTGRES_OBJECTS: Final = """
    SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT table_name || '.' || column_name,
      concat_ws(' ', data_type, is_nullable, column_default, is_identity, identity_generation)
    FROM information_schema.columns WHERE table_schema = 'public'
"""


def test_the_migrations_make_exactly_what_the_code_declares(empty_database: Database) -> None:
    """Alembic's comparison knows neither CHECK nor the WHERE of an index, so the database's own words are compared."""
    schema.upgrade(empty_database)
    with empty_database.engine.begin() as connection:
        differences = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)
        migrated = _objects(connection)
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE alembic_version"))
        metadata.create_all(connection)
        declared = _objects(connection)

    assert differences == []
    assert {name: made for name, made in migrated.items() if "alembic" not in name} == declared
    assert len(declared) >= len(metadata.tables)


def test_the_migrations_are_named_by_their_versions_in_one_line() -> None:
    """The names alone tell a command which version it needs: no command but an upgrade loads Alembic for it."""
    migrations = ScriptDirectory(str(Path(schema.__file__).parent / "migrations"))
    in_order = [revision.revision for revision in migrations.walk_revisions()][::-1]

    named = sorted(file.name[:4] for file in Path(migrations.versions).glob("[0-9]*.py"))
    assert named == in_order
    assert schema.head() == migrations.get_current_head() == in_order[-1]

    loaded = "import sys, reconciler.cli.stores; sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0


def test_an_upgrade_of_a_current_store_changes_nothing(store: Store) -> None:
    before, after = schema.upgrade(store.database)

    assert before == after == schema.head()


def test_an_empty_store_is_refused_with_the_command_to_run(empty_database: Database) -> None:
    with pytest.raises(SchemaVersionError, match=r"is empty: run `reconciler db upgrade` with the same --store once"):
        schema.check(empty_database)


def test_an_older_store_is_refused_with_the_command_to_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    known = schema.head()
    monkeypatch.setattr(schema, "head", lambda: "9999")

    with pytest.raises(
        SchemaVersionError,
        match=rf"has schema {known}, this program needs 9999: run `reconciler db upgrade` with the same",
    ):
        schema.check(store.database)


def test_a_store_of_a_newer_release_is_refused_and_left_alone(store: Store) -> None:
    with store.database.engine.begin() as connection:
        known = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    try:
        with pytest.raises(SchemaVersionError, match="has schema 9999, which this program does not know: install"):
            schema.check(store.database)
        with pytest.raises(SchemaVersionError, match="has schema 9999, which this program does not know: install"):
            schema.upgrade(store.database)
    finally:
        with store.database.engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :known"), {"known": known})


def test_the_id_of_a_run_that_is_gone_is_never_given_again(store: Store) -> None:
    """Trap: SQLite hands out the rowid of a deleted highest row again; a stale (id, fence) then fits another run."""
    store.apply(job("report"))
    gone = store.trigger("report")
    store.database.tx(lambda tx: run_steps.cancel(tx, gone, actor="tests"))

    assert store.trigger("report") > gone


@pytest.mark.parametrize(
    "table", [each for each in metadata.sorted_tables if each.c.get("id") is not None and each is not leader], ids=str
)
def test_every_table_that_hands_out_ids_remembers_the_highest(store: Store, table: Table) -> None:
    with store.database.engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            (id_column,) = (each for each in inspect(connection).get_columns(table.name) if each["name"] == "id")
            assert id_column.get("identity")
        else:
            made = text("SELECT sql FROM sqlite_master WHERE name = :name")
            assert "AUTOINCREMENT" in connection.execute(made, {"name": table.name}).scalar_one()


LIVE_RUN: Final = {
    "definition_id": 1,
    "generation": 1,
    "slot_us": 0,
    "requirement_id": 1,
    "priority": 5,
    "order_key": 0,
    "due_us": 0,
    "state": RunState.PENDING,
    "created_us": 0,
    "created_by": "tests",
}
FINISHED_RUN: Final = {
    **{name: value for name, value in LIVE_RUN.items() if name != "order_key"},
    "run_id": 1,
    "state": RunState.SUCCEEDED,
    "fence": 1,
    "attempt": 1,
    "lost_leases": 0,
    "finished_us": 0,
}
HOLD: Final = {
    "run_id": 1,
    "fence": 1,
    "attempt": 1,
    "node_id": 1,
    "outcome": AttemptOutcome.SUCCEEDED,
    "finished_us": 0,
}
TRIGGER: Final = {
    "name": "default",
    "timing": "{}",
    "activation": 1,
    "activated_us": 0,
    "cursor_us": 0,
}
SKIPPED: Final = {"slot_us": 0, "definition_id": 1, "reason": "Suspended", "recorded_us": 0, "recorded_by": "tests"}
NODE: Final = {
    "epoch": 1,
    "name": "a",
    "host": "here",
    "pid": 1,
    "secret_hash": "",
    "state": "Active",
    "handlers": "[]",
    "tags": "[]",
    "slots": 1,
    "registered_us": 0,
    "heartbeat_us": 0,
    "lease_until_us": 0,
}
QUEUE: Final = {"name": "reports", "max_running": 1, "aging_us": 1, "suspended": False}
PASS: Final = {"source": "default", "state": "Requested", "requested_by": "tests", "requested_us": 0}
RIGHT: Final[dict[str, tuple[Table, Mapping[str, Any]]]] = {
    "a live run": (runs, LIVE_RUN),
    "a held run": (runs, LIVE_RUN | {"state": RunState.RUNNING, "node_id": 1, "fence": 1, "attempt": 1}),
    "a finished run": (run_history, FINISHED_RUN),
    "a hold": (attempts, HOLD),
    "a node": (nodes, NODE),
    "a pass": (passes, PASS),
    "a queue": (queues, QUEUE),
}
WRONG: Final[dict[str, tuple[Table, Mapping[str, Any]]]] = {
    "a run that runs on no node": (runs, LIVE_RUN | {"state": RunState.RUNNING}),
    "a run that is claimed by no node": (runs, LIVE_RUN | {"state": RunState.CLAIMED}),
    "a waiting run that a node holds": (runs, LIVE_RUN | {"node_id": 1}),
    **{f"a live run that is {state}": (runs, LIVE_RUN | {"state": state}) for state in sorted(TERMINAL)},
    "a live run in a state that is none": (runs, LIVE_RUN | {"state": "Lost"}),
    "a priority above 9": (runs, LIVE_RUN | {"priority": 10}),
    "a priority below 0": (runs, LIVE_RUN | {"priority": -1}),
    "a waiting run that holds a place of its queue": (runs, LIVE_RUN | {"queue_place_id": 1}),
    "a waiting run that holds a place of all queues": (runs, LIVE_RUN | {"global_place_id": 1}),
    "a queue in which nothing may run": (queues, QUEUE | {"max_running": 0}),
    "more attempts than claims": (runs, LIVE_RUN | {"attempt": 1, "fence": 0}),
    "a finished run that runs": (run_history, FINISHED_RUN | {"state": RunState.RUNNING}),
    "a finished run that waits": (run_history, FINISHED_RUN | {"state": RunState.PENDING}),
    "a hold that ended in no known way": (attempts, HOLD | {"outcome": "Vanished"}),
    "a node in no known state": (nodes, NODE | {"state": "Asleep"}),
    "a pass in no known state": (passes, PASS | {"state": "Perhaps"}),
    "a second leader": (leader, {"id": 2, "term": 99}),
}


@pytest.mark.parametrize("what", RIGHT)
def test_the_database_takes_what_is_right(store: Store, what: str) -> None:
    """So that the refusals below are for the reason they name."""
    table, row = RIGHT[what]

    with store.database.engine.begin() as connection:
        connection.execute(insert(table).values(row))


@pytest.mark.parametrize("what", WRONG)
def test_the_database_refuses_what_the_code_must_never_write(store: Store, what: str) -> None:
    table, row = WRONG[what]

    with pytest.raises(IntegrityError, match=r"(?i)check"), store.database.engine.begin() as connection:
        connection.execute(insert(table).values(row))


def test_a_slot_of_a_trigger_has_one_live_run(store: Store) -> None:
    """S1."""
    row = LIVE_RUN | {"trigger_id": 1}
    with store.database.engine.begin() as connection:
        connection.execute(insert(runs).values(row))

    with pytest.raises(IntegrityError, match=r"(?i)unique"), store.database.engine.begin() as connection:
        connection.execute(insert(runs).values(row))


def test_a_removed_trigger_has_no_next_fire_and_a_skipped_slot_a_reason_of_the_list(store: Store) -> None:
    store.apply(job("report", every="10s"))
    with store.database.engine.begin() as connection:
        trigger_id = connection.execute(text("SELECT id FROM triggers")).scalar_one()

    with pytest.raises(IntegrityError, match=r"(?i)check"), store.database.engine.begin() as connection:
        connection.execute(update(triggers).values(removed_us=1, next_fire_us=1))
    with pytest.raises(IntegrityError, match=r"(?i)check"), store.database.engine.begin() as connection:
        connection.execute(insert(slots).values(trigger_id=trigger_id, **SKIPPED | {"reason": "Forgotten"}))


def _objects(connection: Connection) -> Mapping[str, Any]:
    """Everything a schema consists of, by name, as the database itself writes it down."""
    if connection.dialect.name == "postgresql":
        return {row[0]: row[1] for row in connection.execute(text(_POSTGRES_OBJECTS))}
    return {name: _clauses(made) for name, made in connection.execute(text(_SQLITE_OBJECTS))}


def _clauses(made: str) -> list[str]:
    """The columns and constraints of a CREATE; their order, brackets around a default and quotes mean nothing."""
    plain = re.sub(r"\s+", " ", made).replace("DEFAULT (false)", "DEFAULT false").replace('"', "")
    parts, depth = [""], 0
    for letter in plain:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += letter
    return sorted(part.strip(" ()") for part in parts)
