"""The duty that keeps the number of places for runs over all queues as the leader's settings say."""

from __future__ import annotations

from typing import Final

from reconciler.model.lease import Term
from reconciler.store import places
from reconciler.store.database import Database

_EVERY_SECONDS: Final = 1.0
"""How soon a new term's setting holds."""


class GlobalCap:
    """One leader duty. `step` may be repeated or run by two leaders: the newest term's setting stands (L4)."""

    def __init__(self, database: Database, most: int | None) -> None:
        """Keep the setting; None lets any number of runs be held at once."""
        self._database = database
        self._most = most
        self._term: int | None = None

    def step(self, term: Term) -> float:
        """Set the cap once under each term; give the seconds until the next turn. Raises NotLeaderError."""
        if self._term != term.number:
            self._database.tx(lambda tx: places.set_cap(tx, term, self._most))
            self._term = term.number
        return _EVERY_SECONDS
