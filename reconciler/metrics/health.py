"""Whether a `serve` process is well: for whatever restarts it, for whatever sends it work, and for people.

Being alive needs no store: a process that is restarted because its database is away mends nothing. Being ready is not
being the leader: standing by is a good state too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from reconciler.clock import Clock, iso
from reconciler.engine.leader import TermBegun, TermEnded, TermResigned
from reconciler.engine.loop import DutyDone
from reconciler.errors import ReconcilerError
from reconciler.metrics.listener import Answer, Route
from reconciler.reconcile.apply import PassRefused
from reconciler.reconcile.loop import SourceRead
from reconciler.store import definitions, leader, passes, schema
from reconciler.store.database import Database
from reconciler.telemetry import Event
from reconciler.words import count


class Health:
    """What this process says of itself; it hears of its own work as a subscriber to events."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._leads = False
        self._checked_us: int | None = None
        self._read_us: int | None = None
        self._last_error: str | None = None

    def hear(self, event: Event) -> None:
        """Note what happened."""
        match event:
            case TermBegun():
                self._leads = True
            case TermEnded() | TermResigned():
                self._leads = False
            case DutyDone("materialise"):
                self._checked_us = self._clock.now_us()
            case PassRefused():
                why = event.reason or count(event.problems, "problem")
                self._last_error = f"{iso(self._clock.now_us())} source {event.source}: {event.state}, {why}"
            case SourceRead():
                self._read_us = self._clock.now_us()
            case _ if event.level >= logging.ERROR:
                self._last_error = f"{iso(self._clock.now_us())} {getattr(event, 'error', type(event).__name__)}"
            case _:
                return

    def routes(self) -> Mapping[str, Route]:
        """Give the paths and what answers them."""
        return {"/health": self._all, "/health/live": self._live, "/health/ready": self._ready}

    def _live(self) -> Answer:
        return _answer({"status": "live"})

    def _ready(self) -> Answer:
        checks = self._checks()
        is_ready = all(each == "ok" for each in checks.values())
        return _answer({"status": "ready" if is_ready else "not ready", "checks": checks}, ok=is_ready)

    def _all(self) -> Answer:
        checks = self._checks()
        facts: dict[str, Any] = {"leader": None, "loaded_definitions": None}
        if checks["store"] == "ok":
            facts = self._database.read(
                lambda tx: {"leader": _leader(leader.current(tx)), "loaded_definitions": definitions.count(tx)}
            )
        body = {
            **facts,
            "is_running": True,
            "is_leader": self._leads,
            "last_schedule_check_at": _instant(self._checked_us),
            "last_definitions_refresh_at": _instant(self._read_us),
            "last_error": self._last_error,
            "checks": checks,
        }
        return _answer(body, ok=all(each == "ok" for each in checks.values()))

    def _checks(self) -> dict[str, str]:
        """Try what this process needs: the store with this version's schema, and definitions that were loaded once."""
        try:
            schema.check(self._database)
            is_loaded = self._database.read(passes.is_any_applied)
        except ReconcilerError as fault:
            return {"store": str(fault), "definitions": "unknown"}
        return {"store": "ok", "definitions": "ok" if is_loaded else "no source has been applied yet"}


def _leader(found: leader.Leadership) -> str | None:
    return found.owner if found.alive else None


def _instant(instant_us: int | None) -> str | None:
    return None if instant_us is None else iso(instant_us)


def _answer(body: Mapping[str, Any], *, ok: bool = True) -> Answer:
    status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
    return Answer(json.dumps(body, ensure_ascii=False).encode() + b"\n", status=status)
