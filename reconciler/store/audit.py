"""What an actor, a commit or a leader change did, written in the same transaction as the deed (A1)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import insert

from reconciler.model.definition import Json, canonical
from reconciler.store.database import Tx
from reconciler.store.tables import audit


def record(tx: Tx, *, actor: str, action: str, subject: str, detail: Mapping[str, Json]) -> None:
    """Add one row. `actor` is `os:user`, `leader/term` or a token's subject; no secret belongs in `detail`."""
    tx.execute(
        insert(audit).values(at_us=tx.now, actor=actor, action=action, subject=subject, detail=canonical(detail))
    )
