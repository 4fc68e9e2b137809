"""After a reboot: the clock of an SQLite store's leases begins anew, and with it everything that hung on it is over."""

from __future__ import annotations

from typing import Final

from sqlalchemy import update

from reconciler.store import facts
from reconciler.store.database import Database, Tx
from reconciler.store.tables import leader, nodes

_KEY: Final = "boot_id"


def adopt(database: Database) -> None:
    """End every lease that was granted on another boot, or on another machine. Nothing to do on PostgreSQL.

    Every process calls this before it uses the store, so none ever reads a lease of another boot.
    """
    boot_id = database.boot_id
    if boot_id is None or database.read(lambda tx: facts.known(tx, _KEY)) == boot_id:
        return

    def end_all(tx: Tx) -> None:
        if facts.known(tx, _KEY) == boot_id:
            return
        tx.execute(update(nodes).where(nodes.c.state != "Dead").values(lease_until_us=0))
        tx.execute(update(leader).values(expires_us=0))
        facts.note(tx, _KEY, boot_id)

    database.tx(end_all)
