"""Facts about the store as a whole, by name: on which boot its leases run, by which zone data its slots are planned."""

from __future__ import annotations

from sqlalchemy import delete, insert, select

from reconciler.store.database import Tx
from reconciler.store.tables import meta


def known(tx: Tx, key: str) -> str | None:
    """Give a fact; None where nobody has written it down."""
    found = tx.execute(select(meta.c.value).where(meta.c.key == key)).scalar_one_or_none()
    return None if found is None else str(found)


def note(tx: Tx, key: str, value: str) -> None:
    """Write a fact down, in place of what was known."""
    tx.execute(delete(meta).where(meta.c.key == key))
    tx.execute(insert(meta).values(key=key, value=value))
