"""Being the leader: take the term, keep it, and know when to stop believing in it.

The trust window runs on the local elapsed clock from *before* the request was sent, minus a margin, so this process
stops leading before others may begin. It only saves useless work: what keeps two leaders apart is the guard at the
start of each of their transactions (L2).
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import ClassVar, Final

from reconciler.clock import SECOND_US, Clock
from reconciler.errors import NotLeaderError, StoreUnavailableError
from reconciler.model.lease import Term, Timings
from reconciler.store import leader as row
from reconciler.store.database import Database
from reconciler.telemetry import Event, emit

_MARGIN: Final = 0.1
_LOOK_SECONDS: Final = 0.4
"""How often a candidate asks for the lead: a clean stop is followed within a second."""


@dataclass(frozen=True, slots=True)
class TermBegun(Event):
    """This process leads now."""

    owner: str
    term: int


@dataclass(frozen=True, slots=True)
class TermEnded(Event):
    """This process leads no longer; another one does, or soon will."""

    level: ClassVar[int] = logging.WARNING
    owner: str
    term: int
    reason: str


@dataclass(frozen=True, slots=True)
class TermResigned(Event):
    """This process gave its lead back, as it was told to stop."""

    owner: str
    term: int


class Candidate:
    """A process that leads when nobody else does. `step` is called by one thread; `term` may be asked by any."""

    def __init__(self, database: Database, *, owner: str, timings: Timings, clock: Clock) -> None:
        """Stand as a candidate; `owner` is unique to this process start."""
        self._database = database
        self._owner = owner
        self._ttl_seconds = timings.leader_ttl_seconds
        self._clock = clock
        self._changing = threading.Lock()
        self._term: Term | None = None
        self._trusted_until = 0.0
        self._is_unsure = False
        """Whether a take-over was asked for and not answered: it may have been granted."""

    def step(self) -> float:
        """Take or renew the lead; give the seconds until it should be called again.

        Raises StoreUnavailableError; the trust window then runs out by itself.
        """
        sent_at = self._clock.elapsed()
        ttl_us = round(self._ttl_seconds * SECOND_US)
        held = self._held()
        if held is not None:
            if self._database.tx(lambda tx: row.renew(tx, held, ttl_us=ttl_us)):
                self._trust(held, sent_at)
                return self._ttl_seconds / 3
            self._drop("the lease ran out before it was renewed")
        won = self._acquire(ttl_us)
        if won is None:
            return min(_LOOK_SECONDS, self._ttl_seconds / 6)
        self._trust(won, sent_at)
        emit(TermBegun(won.owner, won.number))
        return self._ttl_seconds / 3

    def term(self) -> Term:
        """Give the term to work under. Raises NotLeaderError when this process does not lead, or may not any more."""
        with self._changing:
            if self._term is None or self._clock.elapsed() >= self._trusted_until:
                raise NotLeaderError(f"{self._owner} does not lead")
            return self._term

    def lost(self, reason: str) -> None:
        """Stop leading at once: a guard found another term."""
        self._drop(reason)

    def resign(self) -> None:
        """Give the lead back, so that the next leader need not wait; failing to is no harm."""
        with self._changing:
            held, self._term = self._term, None
        if held is None:
            return
        emit(TermResigned(held.owner, held.number))
        try:
            self._database.tx(lambda tx: row.release(tx, held))
        except StoreUnavailableError:
            return

    def _acquire(self, ttl_us: int) -> Term | None:
        """Ask for the lead; one that was granted without our hearing of it is found by reading back, and renewed.

        Otherwise nobody would lead until it runs out. The row is read after another request for it, which waits for
        whatever is still under way.
        """
        was_unsure, self._is_unsure = self._is_unsure, True
        won = self._database.tx(lambda tx: row.acquire(tx, self._owner, ttl_us=ttl_us))
        if won is None and was_unsure:
            found = self._database.read(row.current)
            mine = Term(found.term, self._owner)
            if found.owner == self._owner and self._database.tx(lambda tx: row.renew(tx, mine, ttl_us=ttl_us)):
                won = mine
        self._is_unsure = False
        return won

    def _held(self) -> Term | None:
        with self._changing:
            return self._term

    def _trust(self, term: Term, sent_at: float) -> None:
        with self._changing:
            self._term = term
            self._trusted_until = sent_at + self._ttl_seconds * (1 - _MARGIN)

    def _drop(self, reason: str) -> None:
        with self._changing:
            dropped, self._term = self._term, None
        if dropped is not None:
            emit(TermEnded(dropped.owner, dropped.number, reason))
