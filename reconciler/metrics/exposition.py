"""One process's `/metrics`: its instruments, subscribed to its events, behind a listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from reconciler.clock import Clock
from reconciler.errors import UsageError
from reconciler.metrics.address import Address
from reconciler.metrics.gauges import StoreGauges
from reconciler.metrics.instruments import LeaderInstruments, Names, WorkerInstruments, counting, new_registry
from reconciler.metrics.listener import Answer, Listener
from reconciler.store.database import Database
from reconciler.telemetry import subscribe

PATH: Final = "/metrics"
FLAG: Final = "--metrics"


class Exposition:
    """Counts from its making until it is closed."""

    def __init__(self) -> None:
        self.registry: CollectorRegistry = new_registry()
        self._names = Names(self.registry)
        self._closing: list[Callable[[], None]] = []

    def of_leader(self, database: Database, clock: Clock, *, on_time_seconds: float) -> Exposition:
        """Count what a leader candidate does, and show the gauges of the store."""
        instruments = LeaderInstruments(self.registry, clock)
        StoreGauges(database, clock, on_time_seconds=on_time_seconds).register(self.registry)
        self._closing.append(subscribe(counting(instruments.handlers())))
        return self

    def of_worker(self, held: Callable[[], int]) -> Exposition:
        """Count what a worker does; `held` says how many runs are in its hands."""
        instruments = WorkerInstruments(self.registry, self._names)
        leases = Gauge("reconciler_leases_held", "Runs in this node's hands.", registry=self.registry)
        leases.set_function(held)
        self._closing.append(subscribe(counting(instruments.handlers())))
        return self

    def listen(self, address: Address, token: str | None) -> Listener:
        """Take an address; it is answered once the listener is started.

        Raises UsageError when it is taken, or when others reach it and no token keeps them out: whoever can scrape can
        read the names of all jobs.
        """
        if not address.is_loopback and token is None:
            raise UsageError(
                f"{FLAG} {address} can be reached from other machines: set metrics.tokenFile, or listen on 127.0.0.1"
            )
        listener = Listener(address, {PATH: self.answer}, token=token, flag=FLAG)
        self._closing.append(listener.close)
        return listener

    def answer(self) -> Answer:
        """Give everything, in Prometheus's text format."""
        return Answer(generate_latest(self.registry), CONTENT_TYPE_LATEST)

    def close(self) -> None:
        """Listen and count no more."""
        while self._closing:
            self._closing.pop()()
