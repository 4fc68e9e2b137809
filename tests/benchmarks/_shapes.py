"""The shapes that table_shape.py compares: for each, its tables and the four steps in a run's life, on both databases.

The steps are the same for every shape: insert waiting rows, promote the due ones, claim a batch (fence and attempt
raised, node set), finish it (fence compared, history and attempt written). Parameters are written `:name`.
"""

from dataclasses import dataclass
from typing import Literal

Dialect = Literal["postgresql", "sqlite"]

FIXED = """definition_id, generation, trigger_id, slot_us, requirement_id, priority, order_key, due_us, created_us,
  created_by"""
FIXED_COLUMNS = """definition_id bigint NOT NULL, generation int NOT NULL, trigger_id bigint NOT NULL,
  slot_us bigint NOT NULL, requirement_id bigint NOT NULL, priority smallint NOT NULL, order_key bigint NOT NULL,
  due_us bigint NOT NULL, created_us bigint NOT NULL, created_by text NOT NULL"""
COUNTERS = """fence bigint NOT NULL DEFAULT 0, attempt int NOT NULL DEFAULT 0, lost_leases int NOT NULL DEFAULT 0"""
HOLD = "node_id bigint, started_us bigint"
HISTORY = f"""
CREATE TABLE run_history (run_id bigint PRIMARY KEY, {FIXED_COLUMNS}, fence bigint NOT NULL, attempt int NOT NULL,
  node_id bigint, started_us bigint, state text NOT NULL, finished_us bigint NOT NULL, exit_code int);
CREATE INDEX history_of_definition ON run_history (definition_id, finished_us);"""
ATTEMPTS = """
CREATE TABLE attempts (run_id bigint NOT NULL, attempt int NOT NULL, fence bigint NOT NULL, node_id bigint NOT NULL,
  started_us bigint NOT NULL, finished_us bigint NOT NULL, outcome text NOT NULL, exit_code int,
  PRIMARY KEY (run_id, attempt));"""
NODES = "CREATE TABLE nodes (id bigint PRIMARY KEY, lease_until_us bigint NOT NULL); INSERT INTO nodes VALUES (1, 0);"

NEW_ROWS = {
    "postgresql": "unnest(CAST(:triggers AS bigint[]), CAST(:slots AS bigint[])) AS t(trigger_id, slot_us)",
    "sqlite": "(SELECT json_extract(value, '$[0]') AS trigger_id, json_extract(value, '$[1]') AS slot_us "
    "FROM json_each(:pairs))",
}
HELD_ROWS = {
    "postgresql": "unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[])) AS i(id, fence)",
    "sqlite": "(SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS fence "
    "FROM json_each(:pairs)) AS i",
}
INTO_HISTORY = (
    f"INSERT INTO run_history (run_id, {FIXED}, fence, attempt, node_id, started_us, state, finished_us, exit_code)"
)
AS_HISTORY = f"SELECT r.id, {FIXED}, r.fence, attempt, node_id, started_us, 'Succeeded', :now, 0"
INTO_ATTEMPTS = "INSERT INTO attempts (run_id, attempt, fence, node_id, started_us, finished_us, outcome, exit_code)"
AS_ATTEMPT = "SELECT r.id, attempt, r.fence, node_id, started_us, :now, 'Succeeded', 0"


@dataclass(frozen=True, slots=True)
class Shape:
    """`live` names the tables that should stay small; each step is one or more statements of one transaction."""

    name: str
    schema: str
    live: tuple[str, ...]
    insert: str
    promote: tuple[str, ...]
    claim: tuple[str, ...]
    finish: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class States:
    kind: str
    scheduled: str
    retrying: str
    pending: str
    claimed: str
    running: str

    @property
    def sleeping(self) -> str:
        return f"state IN ({self.scheduled}, {self.retrying})"

    @property
    def held(self) -> str:
        return f"state IN ({self.claimed}, {self.running})"


TEXT = States("text", "'Scheduled'", "'Retrying'", "'Pending'", "'Claimed'", "'Running'")
NUMBER = States("smallint", "0", "1", "2", "3", "4")


def shapes(dialect: Dialect) -> list[Shape]:
    found = [
        one_table(dialect, "a one table, text state", TEXT),
        one_table(dialect, "a one table, smallint state", NUMBER),
        waiting_apart(dialect),
        three_tables(dialect),
        wide_table(dialect),
    ]
    if dialect == "postgresql":
        found.insert(1, one_table(dialect, "a one table, text state, fillfactor 70", TEXT, fillfactor=70))
    return found


def one_table(dialect: Dialect, name: str, states: States, fillfactor: int = 100) -> Shape:
    """(a) The state column moves; the row leaves for history at the end."""
    schema = (
        f"""
CREATE TABLE runs ({_id(dialect)}, {FIXED_COLUMNS}, state {states.kind} NOT NULL, {COUNTERS}, {HOLD},
  CHECK (({states.held}) = (node_id IS NOT NULL))) {_options(dialect, fillfactor)};
CREATE INDEX ready ON runs (order_key, id) WHERE state = {states.pending};
CREATE INDEX due ON runs (due_us) WHERE {states.sleeping};
CREATE INDEX owned ON runs (node_id) WHERE {states.held};
CREATE UNIQUE INDEX slot ON runs (trigger_id, slot_us);"""
        + HISTORY
        + ATTEMPTS
        + NODES
    )
    due = f"SELECT id FROM runs WHERE {states.sleeping} AND due_us <= :now ORDER BY due_us, id LIMIT :n"
    return Shape(
        name,
        schema,
        ("runs",),
        _insert(dialect, "runs", "state", states.scheduled),
        (_update(dialect, "runs", f"state = {states.pending}", due),),
        (_claim(dialect, "runs", states),),
        _finish(dialect, "runs", f"r.{states.held}"),
    )


def waiting_apart(dialect: Dialect) -> Shape:
    """(b) Rows that wait for their instant stand in a table of their own and move when due."""
    live = f"""
CREATE TABLE run_live (id bigint PRIMARY KEY, {FIXED_COLUMNS}, state text NOT NULL, {COUNTERS}, {HOLD},
  CHECK (({TEXT.held}) = (node_id IS NOT NULL))) {_options(dialect)};
CREATE INDEX ready ON run_live (order_key, id) WHERE state = 'Pending';
CREATE INDEX owned ON run_live (node_id) WHERE {TEXT.held};"""
    return Shape(
        "b waiting | live",
        _waiting(dialect) + live + HISTORY + ATTEMPTS + NODES,
        ("run_wait", "run_live"),
        _insert(dialect, "run_wait"),
        _move(dialect, ("run_wait", "run_live"), _due_waiting(), (", state", ", 'Pending'")),
        (_claim(dialect, "run_live", TEXT),),
        _finish(dialect, "run_live", f"r.{TEXT.held}"),
    )


def three_tables(dialect: Dialect) -> Shape:
    """(c) No state at all: waiting, ready and claimed are tables, every move is a delete and an insert."""
    live = f"""
CREATE TABLE run_ready (id bigint PRIMARY KEY, {FIXED_COLUMNS}, {COUNTERS}) {_options(dialect)};
CREATE INDEX ready ON run_ready (order_key, id);
CREATE TABLE run_claimed (id bigint PRIMARY KEY, {FIXED_COLUMNS}, {COUNTERS}, {HOLD}) {_options(dialect)};
CREATE INDEX owned ON run_claimed (node_id);"""
    head = "SELECT id FROM run_ready ORDER BY order_key, id LIMIT :n"
    taken = (", fence, attempt, node_id, started_us", ", fence + 1, attempt + 1, 1, :now")
    return Shape(
        "c waiting | ready | claimed",
        _waiting(dialect) + live + HISTORY + ATTEMPTS + NODES,
        ("run_wait", "run_ready", "run_claimed"),
        _insert(dialect, "run_wait"),
        _move(dialect, ("run_wait", "run_ready"), _due_waiting(), ("", "")),
        _move(dialect, ("run_ready", "run_claimed"), head, taken, returning=" RETURNING id, fence"),
        _finish(dialect, "run_claimed", "node_id = 1"),
    )


def wide_table(dialect: Dialect) -> Shape:
    """(d) One row for ever, with its parameters and result in JSON; terminal rows stay in the table."""
    json = "jsonb" if dialect == "postgresql" else "text"
    parameters = """'{"table": "orders", "day": "2026-01-31", "target": "s3://northstar/exports/orders/2026-01-31",
      "columns": ["id", "customer", "amount", "currency", "created"], "retries": 3, "labels": {"team": "platform"}}'"""
    schema = (
        f"""
CREATE TABLE runs ({_id(dialect)}, {FIXED_COLUMNS}, state text NOT NULL, {COUNTERS}, {HOLD}, finished_us bigint,
  exit_code int, parameters {json} NOT NULL DEFAULT {parameters}, result {json}) {_options(dialect)};
CREATE INDEX ready ON runs (order_key, id) WHERE state = 'Pending';
CREATE INDEX due ON runs (due_us) WHERE {TEXT.sleeping};
CREATE INDEX owned ON runs (node_id) WHERE {TEXT.held};
CREATE UNIQUE INDEX slot ON runs (trigger_id, slot_us);
CREATE INDEX history_of_definition ON runs (definition_id, finished_us);"""
        + ATTEMPTS
        + NODES
    )
    due = f"SELECT id FROM runs WHERE {TEXT.sleeping} AND due_us <= :now ORDER BY due_us, id LIMIT :n"
    values = """state = 'Succeeded', finished_us = :now, exit_code = 0, result = '{"rows": 1200}'"""
    held = f"FROM {HELD_ROWS[dialect]}"
    guarded = f"r.id = i.id AND r.fence = i.fence AND r.{TEXT.held}"
    if dialect == "postgresql":
        ended = f"UPDATE runs r SET {values} {held} WHERE {guarded} RETURNING r.*"
        finish: tuple[str, ...] = (f"WITH r AS ({ended}) {INTO_ATTEMPTS} {AS_ATTEMPT} FROM r",)
    else:
        finish = (
            f"{INTO_ATTEMPTS} {AS_ATTEMPT} {held} CROSS JOIN runs AS r WHERE {guarded}",
            f"UPDATE runs AS r SET {values} {held} WHERE {guarded}",
        )
    return Shape(
        "d one wide table, kept",
        schema,
        ("runs",),
        _insert(dialect, "runs", "state", TEXT.scheduled),
        (_update(dialect, "runs", "state = 'Pending'", due),),
        (_claim(dialect, "runs", TEXT),),
        finish,
    )


def _id(dialect: Dialect) -> str:
    if dialect == "sqlite":
        return "id integer PRIMARY KEY AUTOINCREMENT"
    return "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"


def _options(dialect: Dialect, fillfactor: int = 100) -> str:
    if dialect == "sqlite":
        return ""
    return (
        f"WITH (fillfactor = {fillfactor}, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, "
        "autovacuum_vacuum_cost_delay = 0)"
    )


def _waiting(dialect: Dialect) -> str:
    return f"""
CREATE TABLE run_wait ({_id(dialect)}, {FIXED_COLUMNS}, {COUNTERS}) {_options(dialect)};
CREATE INDEX due ON run_wait (due_us);
CREATE UNIQUE INDEX slot ON run_wait (trigger_id, slot_us);"""


def _due_waiting() -> str:
    return "SELECT id FROM run_wait WHERE due_us <= :now ORDER BY due_us, id LIMIT :n"


def _insert(dialect: Dialect, table: str, column: str = "", value: str = "") -> str:
    comma = ", " if column else ""
    return (
        f"INSERT INTO {table} ({FIXED}{comma}{column}) SELECT trigger_id, 1, trigger_id, slot_us, 1, 5, "
        f"slot_us + 240000000, slot_us, slot_us, 'leader-1'{comma}{value} FROM {NEW_ROWS[dialect]} "
        "WHERE true ON CONFLICT DO NOTHING"
    )


def _update(dialect: Dialect, table: str, values: str, picked: str, *, returning: str = "") -> str:
    if dialect == "sqlite":
        return f"UPDATE {table} SET {values} WHERE id IN ({picked}){returning}"
    return (
        f"WITH pick AS MATERIALIZED ({picked} FOR UPDATE SKIP LOCKED) "
        f"UPDATE {table} r SET {values} FROM pick WHERE r.id = pick.id{returning.replace(' id', ' r.id')}"
    )


def _claim(dialect: Dialect, table: str, states: States) -> str:
    head = f"SELECT id FROM {table} WHERE state = {states.pending} ORDER BY order_key, id LIMIT :n"
    values = f"state = {states.running}, fence = fence + 1, attempt = attempt + 1, node_id = 1, started_us = :now"
    return _update(dialect, table, values, head, returning=" RETURNING id, fence")


def _move(
    dialect: Dialect, tables: tuple[str, str], picked: str, added: tuple[str, str], *, returning: str = ""
) -> tuple[str, ...]:
    source, target = tables
    columns, values = added
    into = f"INSERT INTO {target} (id, {FIXED}{columns}) SELECT id, {FIXED}{values}"
    if dialect == "sqlite":
        return (
            f"{into} FROM {source} WHERE id IN ({picked}){returning}",
            f"DELETE FROM {source} WHERE id IN ({picked})",
        )
    gone = f"DELETE FROM {source} s USING pick WHERE s.id = pick.id RETURNING s.*"
    locked = f"pick AS MATERIALIZED ({picked} FOR UPDATE SKIP LOCKED)"
    return (f"WITH {locked}, gone AS ({gone}) {into} FROM gone{returning}",)


def _finish(dialect: Dialect, table: str, guard: str) -> tuple[str, ...]:
    guarded = f"r.id = i.id AND r.fence = i.fence AND {guard}"
    if dialect == "sqlite":
        found = f"FROM {HELD_ROWS[dialect]} CROSS JOIN {table} AS r WHERE {guarded}"
        return (
            f"{INTO_HISTORY} {AS_HISTORY} {found}",
            f"{INTO_ATTEMPTS} {AS_ATTEMPT} {found}",
            f"DELETE FROM {table} WHERE id IN (SELECT r.id {found})",
        )
    ended = f"DELETE FROM {table} r USING {HELD_ROWS[dialect]} WHERE {guarded} RETURNING r.*"
    kept = f"h AS ({INTO_HISTORY} {AS_HISTORY} FROM r)"
    return (f"WITH r AS ({ended}), {kept} {INTO_ATTEMPTS} {AS_ATTEMPT} FROM r",)
