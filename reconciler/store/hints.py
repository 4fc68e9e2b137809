"""“Look now”: how one process tells others, through the store, that something became claimable.

Law: a hint is never the truth. Whoever waits polls as well, so that one that is lost costs time and nothing else; and
it is never part of the transaction that it tells of, since on PostgreSQL commits with a NOTIFY wait for one another.
"""

from __future__ import annotations

import threading
from typing import Any, Final, Protocol

from sqlalchemy import Engine, NullPool, PoolProxiedConnection

_CHANNEL: Final = "reconciler"
_SHORTEST_SECONDS: Final = 0.002
_LONGEST_SECONDS: Final = 0.02
_ANYTHING_CLAIMABLE: Final = "SELECT 1 FROM runs WHERE state IN ('Pending') LIMIT 1"


class Hints(Protocol):
    """Hears of what became claimable, on a connection of its own."""

    def wait(self, seconds: float) -> bool:
        """Wait for a hint; False when none came in that time. Raises what the driver raises."""

    def close(self) -> None:
        """Give the connection back."""


class Notifications:
    """PostgreSQL: NOTIFY and LISTEN. Through a pooler that shares connections nothing is heard."""

    def __init__(self, engine: Engine) -> None:
        self._own, self._connection = _own_connection(engine)
        self._connection.autocommit = True
        self._connection.execute(f"LISTEN {_CHANNEL}")

    def wait(self, seconds: float) -> bool:
        return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))

    def close(self) -> None:
        self._own.close()


class Changes:
    """SQLite: the file's data version, which every commit of another connection changes; a look costs microseconds."""

    def __init__(self, engine: Engine) -> None:
        self._own, self._connection = _own_connection(engine)
        self._never = threading.Event()
        self._seen = -1

    def wait(self, seconds: float) -> bool:
        # Counted in pauses of real time: what is waited for is another process, which no turned clock hurries.
        waited, pause = 0.0, _SHORTEST_SECONDS
        while waited < seconds:
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            if version != self._seen:
                self._seen, pause = version, _SHORTEST_SECONDS
                if self._connection.execute(_ANYTHING_CLAIMABLE).fetchone():
                    return True
            self._never.wait(pause)
            waited, pause = waited + pause, min(1.2 * pause, _LONGEST_SECONDS)
        return False

    def close(self) -> None:
        self._own.close()


def notify(engine: Engine) -> None:
    """Tell everybody who listens, in a transaction of its own (PostgreSQL)."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"NOTIFY {_CHANNEL}")


def _own_connection(engine: Engine) -> tuple[PoolProxiedConnection, Any]:
    """Take a connection out of the pool, for good, and give the driver's; it lives as long as the first is held."""
    # A pool of its own that resets nothing: what is lost cannot be reset, and the log would tell of the attempt.
    pool = NullPool(engine.pool._creator, reset_on_return=None, dialect=engine.dialect)  # noqa: SLF001 - no public way
    pooled = pool.connect()
    return pooled, pooled.driver_connection
