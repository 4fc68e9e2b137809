"""Nodes and leaders without their programs: processes that take the protocol's steps on the store directly."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Final, Self

from reconciler.clock import SECOND_US, SystemChance
from reconciler.model.lease import Session
from reconciler.model.run import AttemptOutcome, Claim, Outcome
from reconciler.store import claiming, claims, leader, nodes, runs, schema, slots
from reconciler.store.database import Database, Tx
from tests.store.cast import AHEAD_US, ON_TIME_US, TTL_US, Store, job
from tests.turned import TurnedClock

LEASE_US: Final = 120 * SECOND_US
JOB: Final = "contested"


@contextmanager
def contested_store(url: str) -> Iterator[Store]:
    """A migrated store on real time (the cast's own clock is never asked), with one job that anybody may run."""
    database = Database.open(url)
    try:
        schema.upgrade(database)
        store = Store(database, TurnedClock())
        store.apply(job(JOB))
        database.tx(lambda tx: leader.release(tx, store.term))
        yield store
    finally:
        database.close()


@dataclass(frozen=True, slots=True)
class Hands:
    """A node with a connection of its own."""

    database: Database
    session: Session

    @classmethod
    def join(cls, url: str, name: str) -> Self:
        database, secret = Database.open(url), SystemChance().token()

        def register(tx: Tx) -> Session:
            return nodes.register(
                tx,
                name,
                host="here",
                pid=os.getpid(),
                secret=secret,
                queues=None,
                handlers=["slow"],
                tags=(),
                slots=100,
                lease_us=LEASE_US,
            )

        return cls(database, database.tx(register))

    def claim(self, limit: int) -> list[Claim]:
        return self.database.tx(
            lambda tx: claiming.claim(tx, self.session, limit=limit, handlers=["slow"], queues=None)
        )

    def succeed(self, held: Sequence[Claim]) -> set[int]:
        """Report success, and give the runs whose report was accepted."""
        reports = [
            Outcome(each.run_id, each.fence, each.attempt, AttemptOutcome.SUCCEEDED, started_us=0, finished_us=1)
            for each in held
        ]
        return set(self.database.tx(lambda tx: claims.finish(tx, self.session, reports)))

    def hand_back(self, held: Sequence[Claim]) -> None:
        self.database.tx(lambda tx: claims.hand_back(tx, self.session, held))

    def renew(self) -> None:
        assert self.database.tx(lambda tx: nodes.renew(tx, self.session, lease_us=LEASE_US)), "the session is over"

    def leave(self) -> None:
        self.database.close()


def lead_until(url: str, over: Event) -> None:
    """A leader's duties, as often as they go: keep the term, bury and reap, materialise, promote."""
    database, ttl_us = Database.open(url), TTL_US
    term = database.tx(lambda tx: leader.acquire(tx, "busy-leader", ttl_us=ttl_us))
    assert term is not None, "somebody else leads"
    while not over.wait(0.02):
        assert database.tx(lambda tx: leader.renew(tx, term, ttl_us=ttl_us)), "the lead was lost"
        database.tx(lambda tx: nodes.bury_expired(tx, term, limit=100))
        database.tx(lambda tx: runs.reap(tx, term, limit=100))
        database.tx(lambda tx: slots.settle(tx, term, slots.Bounds(AHEAD_US, ON_TIME_US, 100)))
        database.tx(lambda tx: runs.promote(tx, term, limit=100))
    database.close()
