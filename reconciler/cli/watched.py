"""What a process shows to whatever watches it: `/metrics` for Prometheus, `/health` for probes and people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from reconciler.clock import SystemClock
from reconciler.config import Config
from reconciler.errors import UsageError
from reconciler.metrics.address import Address
from reconciler.metrics.exposition import Exposition
from reconciler.metrics.health import Health
from reconciler.metrics.listener import Listener
from reconciler.model.lease import Timings
from reconciler.store.database import Database
from reconciler.telemetry import Event, subscribe

_OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class Listening(Event):
    """The process answers at these addresses."""

    addresses: Sequence[str]


class Watched:
    """The listeners of one process. Making it takes the ports, `start` answers, `close` gives them back."""

    def __init__(self) -> None:
        self._exposition = Exposition()
        self._listeners: list[Listener] = []
        self._closing: list[Callable[[], None]] = [self._exposition.close]

    @classmethod
    def leader(cls, config: Config, database: Database, timings: Timings, *, or_any: bool = False) -> Watched:
        """Show a leader candidate. Raises UsageError when a port is taken; `or_any` takes a free one instead."""
        clock, watched = SystemClock(), cls()
        health = Health(database, clock)
        try:
            watched._listen(config.metrics.serve, partial(watched._metrics, token=config.metrics.token), or_any=or_any)
            watched._listen(config.api.listen, partial(watched._health, health=health), or_any=or_any)
        except UsageError:
            watched.close()
            raise
        watched._exposition.of_leader(database, clock, on_time_seconds=timings.on_time_seconds)
        return watched

    @classmethod
    def worker(cls, config: Config) -> Watched:
        """Show a worker, which is made afterwards. Raises UsageError when the port is taken."""
        watched = cls()
        watched._listen(config.metrics.worker, partial(watched._metrics, token=config.metrics.token))
        return watched

    def of_worker(self, held: Callable[[], int]) -> None:
        """Count what the worker does from now on; `held` says how many runs are in its hands."""
        self._exposition.of_worker(held)

    def start(self) -> list[str]:
        """Begin to answer; give the addresses."""
        for listener in self._listeners:
            listener.start()
        return [listener.shown for listener in self._listeners]

    def close(self) -> None:
        """Stop answering and counting."""
        while self._closing:
            self._closing.pop()()

    def _listen(self, where: str, listen: Callable[[Address], Listener], *, or_any: bool = False) -> None:
        if where == _OFF:
            return
        address = _address(where)
        try:
            self._listeners.append(listen(address))
        except UsageError:
            if not or_any:
                raise
            self._listeners.append(listen(replace(address, port=0)))

    def _metrics(self, address: Address, token: str | None) -> Listener:
        return self._exposition.listen(address, token)

    def _health(self, address: Address, health: Health) -> Listener:
        listener = Listener(address, health.routes(), token=None, flag="--listen")
        self._closing += [listener.close, subscribe(health.hear)]
        return listener


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as fault:
        raise UsageError(str(fault)) from fault
