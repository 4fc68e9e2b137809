"""The guard process of a worker: `python -m reconciler.worker.guard FD`.

It starts the worker's jobs, holds their deadlines and the lease's, renews the lease, and ends every process of the jobs
when the worker dies, hangs or is fenced out. It runs in a session of its own, so that signals to the worker's group do
not reach it, and outside the worker's interpreter lock.
"""

from __future__ import annotations

import os
import socket
import sys

from reconciler.clock import SECOND_US, SystemClock
from reconciler.model.lease import Session, answer_seconds_of
from reconciler.store import nodes
from reconciler.store.database import Database
from reconciler.store.dialect import Limits
from reconciler.worker.kin import become_subreaper, forbid_new_privileges, kill_everything_below
from reconciler.worker.watch import Guard, OpenRenewal
from reconciler.worker.wire import Channel, Setup


class StoreRenewal:
    """Renews sessions in the store, on a connection of its own."""

    def __init__(self, setup: Setup) -> None:
        limits = Limits(answer_seconds=answer_seconds_of(setup.lease_seconds))
        self._database = Database.open(setup.store_url, clock=SystemClock(), limits=limits)
        self._lease_us = round(setup.lease_seconds * SECOND_US)

    def renew(self, session: Session) -> bool:
        """Renew the lease; False when the session is over."""
        return self._database.tx(lambda tx: nodes.renew(tx, session, lease_us=self._lease_us)) is not None

    def end(self, session: Session) -> None:
        """End the session, so that its runs are claimable at once."""
        self._database.tx(lambda tx: nodes.end(tx, session, by=nodes.EndedBy.GUARD))

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


def serve(descriptor: int, renewal: OpenRenewal) -> None:
    """Be the guard of the worker at the other end of the socket `descriptor`, until it is gone."""
    become_subreaper()
    forbid_new_privileges()
    try:
        Guard(Channel(socket.socket(fileno=descriptor)), renewal, clock=SystemClock()).run()
    finally:
        # Nothing is left here, unless the guard itself broke: then its worker may be gone too.
        kill_everything_below(os.getpid())


if __name__ == "__main__":
    serve(int(sys.argv[1]), StoreRenewal)
