"""The gauges of the whole store, read when somebody scrapes, at most once in five seconds.

A store that does not answer costs a scrape nothing but these gauges: `reconciler_store_up` says so.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reconciler.clock import SECOND_US, Clock
from reconciler.errors import ReconcilerError
from reconciler.metrics.instruments import MOST_DEFINITIONS
from reconciler.model.run import HELD
from reconciler.store.database import Database
from reconciler.store.gauges import DefinitionGauge, Gauges, measure
from reconciler.store.queue_tables import ALL_QUEUES

_KEEP_SECONDS: Final = 5.0
_VITALS: Final = {
    "oldest_xmin_age_seconds": "Age of the oldest snapshot, which keeps the database from cleaning up.",
    "run_dead_tuples": "Dead rows of the table of live runs.",
    "size_bytes": "Size of the store.",
}

Sample = tuple[Sequence[str], float]


class StoreGauges(Collector):
    """Reads the store for a scrape, or gives what was read a moment ago."""

    def __init__(self, database: Database, clock: Clock, *, on_time_seconds: float) -> None:
        self._database = database
        self._clock = clock
        self._on_time_us = round(on_time_seconds * SECOND_US)
        self._reading = threading.Lock()
        self._read_at: float | None = None
        self._gauges: Gauges | None = None

    def register(self, registry: CollectorRegistry) -> None:
        """Add itself; nothing is read for that."""
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Name no series beforehand, so that registering reads nothing."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Give every gauge."""
        with self._reading:
            now = self._clock.elapsed()
            if self._read_at is None or now >= self._read_at + _KEEP_SECONDS:
                self._read_at = now
                self._gauges = self._read()
            gauges = self._gauges
        yield _one("reconciler_store_up", "Whether the store answered the last reading.", float(gauges is not None))
        if gauges is not None:
            yield from _leader(gauges)
            yield from _queues(gauges)
            yield from _declared(gauges)
            yield from _definitions(gauges, self._on_time_us)
            yield from _nodes(gauges)
            for name, value in gauges.vitals.items():
                yield _one(f"reconciler_store_{name}", _VITALS[name], value)

    def _read(self) -> Gauges | None:
        try:
            return self._database.read(lambda tx: measure(tx, most_definitions=MOST_DEFINITIONS))
        except ReconcilerError:
            return None


def _leader(gauges: Gauges) -> Iterable[Metric]:
    lead = gauges.leadership
    yield _one("reconciler_leader_term", "The number of the last term; it only grows.", lead.term)
    yield _one("reconciler_leader_alive", "Whether any process leads.", float(lead.alive))
    about = "Until when the leader holds its term."
    yield _one("reconciler_leader_lease_expiry_timestamp_seconds", about, lead.expires_us / SECOND_US)


def _queues(gauges: Gauges) -> Iterable[Metric]:
    depth = [((each.queue, str(each.state)), float(each.number)) for each in gauges.depths.each]
    yield _many("reconciler_queue_depth", "Runs that are not over.", ("queue", "state"), depth)
    oldest: dict[str, float] = {each.queue: 0.0 for each in gauges.depths.each}
    for each in gauges.depths.each:
        if each.oldest_due_us is not None:
            oldest[each.queue] = max(0.0, (gauges.now_us - each.oldest_due_us) / SECOND_US)
    about = "How long the oldest claimable run has been due."
    yield _many("reconciler_queue_oldest_age_seconds", about, ("queue",), [((k,), v) for k, v in oldest.items()])
    yield _many(
        "reconciler_queue_slots",
        "Places for runs of a capped queue; * stands for all queues together.",
        ("queue", "state"),
        _places(gauges),
    )
    yield _one("reconciler_dead_letters", "Runs that were given up and not replayed.", gauges.dead_letters)


def _places(gauges: Gauges) -> Iterable[Sample]:
    for queue, most in gauges.caps.items():
        held = gauges.depths.count(HELD, None if queue == ALL_QUEUES else queue)
        yield (queue, "busy"), float(held)
        yield (queue, "free"), float(max(0, most - held))


def _declared(gauges: Gauges) -> Iterable[Metric]:
    kinds = [(key, float(number)) for key, number in gauges.kinds.items()]
    yield _many("reconciler_definitions", "Live definitions.", ("kind", "state"), kinds)
    degraded = sum(number for (_, state), number in gauges.kinds.items() if state == "Degraded")
    yield _one("reconciler_definitions_degraded", "Definitions whose file is broken: an older version acts.", degraded)
    revisions = [((each.name, each.revision), 1.0) for each in gauges.sources]
    yield _many("reconciler_source_revision_info", "The revision that is applied.", ("source", "revision"), revisions)
    errors = [((each.name,), float(each.errors)) for each in gauges.sources]
    yield _many("reconciler_source_errors", "Problems that the last pass found.", ("source",), errors)
    held = [((each.name,), float(each.held)) for each in gauges.sources]
    yield _many("reconciler_deletions_held", "Deletions that wait for an approval.", ("source",), held)


def _definitions(gauges: Gauges, on_time_us: int) -> Iterable[Metric]:
    every = gauges.definitions
    told = [((each.name, each.kind, each.queue, each.source), 1.0) for each in every]
    labels = ("definition", "kind", "queue", "source")
    yield _many("reconciler_definition_info", "A live definition.", labels, told)
    by = ("definition",)
    yield _many(
        "reconciler_definition_next_fire_timestamp_seconds", "When it fires next.", by, _instants(every, "next_fire_us")
    )
    yield _many(
        "reconciler_definition_last_success_timestamp_seconds",
        "When a run of it last succeeded.",
        by,
        _instants(every, "last_success_us"),
    )
    late_us = gauges.now_us - on_time_us
    overdue = [((each.name,), float((each.next_fire_us or gauges.now_us) < late_us)) for each in every]
    about = "Whether its next fire time has passed and nobody turned it into a run: no leader is at work."
    yield _many("reconciler_definition_overdue", about, by, overdue)
    about = "Whether definitions beyond the limit have no series of their own in the gauges."
    yield _one("reconciler_definition_gauges_truncated", about, float(gauges.is_truncated))


def _instants(every: Sequence[DefinitionGauge], field: str) -> list[Sample]:
    found = [(each.name, getattr(each, field)) for each in every]
    return [((name,), instant_us / SECOND_US) for name, instant_us in found if instant_us is not None]


def _nodes(gauges: Gauges) -> Iterable[Metric]:
    workers = [((state,), float(gauges.workers.get(state, 0))) for state in ("Active", "Draining")]
    yield _many("reconciler_workers", "Workers whose lease runs.", ("state",), workers)
    slots = [(("busy",), float(gauges.busy)), (("free",), float(max(0, gauges.slots - gauges.busy)))]
    yield _many("reconciler_worker_slots", "Places for runs on all workers.", ("state",), slots)


def _one(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _many(name: str, about: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family
