"""The witness: SQL triggers that copy every change of the protocol's rows into a table, in the order of the commits.

It knows nothing of the code under test: what it tells is what the database did. A row that was rolled back is not told.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_WATCHED: Final = {
    "leader": "term owner expires_us",
    "nodes": "id state lease_until_us",
    "triggers": "id timing activation activated_us cursor_us removed_us",
    "slots": "trigger_id slot_us recorded_by reason",
    "requirements": "id queue",
    "queues": "name max_running",
    "runs": "id trigger_id slot_us requirement_id due_us state fence attempt lost_leases node_id cancel_requested "
    "created_by",
    "run_history": "run_id trigger_id slot_us state fence node_id reason",
    "attempts": "run_id fence node_id outcome",
}
Stamp = tuple[int, int, int]
"""(number of the transaction, elapsed time, wall time) of a change."""
_OPERATIONS: Final = {"INSERT": ("NULL", "new"), "UPDATE": ("old", "new"), "DELETE": ("old", "NULL")}


@dataclass(frozen=True, slots=True)
class Change:
    """One row that changed: what it was and what it became. `at_us` is simulated elapsed time, `wall_us` wall time."""

    transaction: int
    at_us: int
    wall_us: int
    table: str
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


def install(connection: sqlite3.Connection) -> None:
    """Make the shadow table and its triggers. They call `sim_stamp`."""
    connection.execute("CREATE TABLE shadow (seq INTEGER PRIMARY KEY, stamp INT, name TEXT, old TEXT, new TEXT)")
    for table, columns in _WATCHED.items():
        for operation, sides in _OPERATIONS.items():
            old, new = (_copy(side, columns) for side in sides)
            connection.execute(
                f"CREATE TRIGGER shadow_{table}_{operation} AFTER {operation} ON {table} BEGIN "
                "INSERT INTO shadow (stamp, name, old, new) "
                f"VALUES (sim_stamp(), '{table}', {old}, {new}); END"
            )


def told(connection: sqlite3.Connection, stamps: Sequence[Stamp]) -> Iterator[Change]:
    """Give every change, in order."""
    for stamp, table, old, new in connection.execute("SELECT stamp, name, old, new FROM shadow ORDER BY seq"):
        number, at_us, wall_us = stamps[stamp]
        yield Change(number, at_us, wall_us, table, _read(old), _read(new))


def _copy(side: str, columns: str) -> str:
    if side == "NULL":
        return side
    return f"json_object({', '.join(f'{name!r}, {side}.{name}' for name in columns.split())})"


def _read(text: str | None) -> Mapping[str, Any] | None:
    return None if text is None else json.loads(text)
