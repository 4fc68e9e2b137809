"""The counters and histograms of one process, and which event moves which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from reconciler import __version__
from reconciler.clock import SECOND_US, Clock
from reconciler.engine.clockwatch import ClockSteady, ClockStepped
from reconciler.engine.leader import TermBegun, TermEnded, TermResigned
from reconciler.engine.loop import DutyDone, DutyFailed
from reconciler.engine.materialise import RunsAwoken, SlotsSettled
from reconciler.engine.reap import RunsExpired, RunsReaped
from reconciler.model.run import TERMINAL
from reconciler.reconcile.loop import PassMade, SourceRead
from reconciler.schedule.zones import tzdata_version
from reconciler.telemetry import Event
from reconciler.worker.events import (
    FencedOut,
    LeaseRenewed,
    RenewalMissed,
    RunRecorded,
    RunsClaimed,
    SessionLost,
    StoreFailed,
)

MOST_DEFINITIONS: Final = 1000
"""How many definitions have series of their own in one process; the others are counted together."""
OTHERS: Final = "(others)"
_QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)


def new_registry() -> CollectorRegistry:
    """Make the registry of one process, with what it is made of in it."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    build = Gauge("reconciler_build_info", "The version of this process.", ["version"], registry=registry)
    build.labels(version=__version__).set(1)
    zones = Gauge("reconciler_tzdata_info", "The time-zone data this process uses.", ["version"], registry=registry)
    zones.labels(version=tzdata_version()).set(1)
    return registry


class Names:
    """Which definitions have series of their own: the first so many that are met."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._known: set[str] = set()
        self._truncated = Gauge(
            "reconciler_metrics_truncated",
            f"Whether there are more than {MOST_DEFINITIONS} definitions, so that some have no series of their own.",
            registry=registry,
        )

    def label(self, definition: str) -> str:
        """Give the label of a definition."""
        if definition in self._known:
            return definition
        if len(self._known) >= MOST_DEFINITIONS:
            self._truncated.set(1)
            return OTHERS
        self._known.add(definition)
        return definition

    def truncated(self) -> None:
        """Note that some definitions are left out."""
        self._truncated.set(1)


class WorkerInstruments:
    """What a worker counts."""

    def __init__(self, registry: CollectorRegistry, names: Names) -> None:
        self._names = names
        self._claimed = Counter("reconciler_runs_claimed", "Runs that this node claimed.", registry=registry)
        self._claim_seconds = Histogram(
            "reconciler_claim_duration_seconds",
            "How long the store took to answer a claim.",
            buckets=_QUICK,
            registry=registry,
        )
        self._lag = Histogram(
            "reconciler_schedule_lag_seconds",
            "How long runs had been due when this node claimed them.",
            buckets=(*_QUICK, 30.0, 60.0, 300.0, 1800.0),
            registry=registry,
        )
        by = ["definition", "outcome"]
        self._attempts = Counter(
            "reconciler_attempts", "Attempts on this node whose result was accepted.", by, registry=registry
        )
        self._runs = Counter("reconciler_runs", "Runs that ended with an attempt on this node.", by, registry=registry)
        self._seconds = Histogram(
            "reconciler_run_duration_seconds",
            "How long attempts took on this node.",
            by,
            buckets=_LONG,
            registry=registry,
        )
        self._renewal = Histogram(
            "reconciler_lease_renew_duration_seconds",
            "How long the store took to renew this node's lease.",
            buckets=_QUICK,
            registry=registry,
        )
        self._renewals_missed = Counter(
            "reconciler_lease_renewals_missed", "Renewals that the store did not answer.", registry=registry
        )
        self._lost = Counter("reconciler_leases_lost", "Leases that this node lost.", registry=registry)
        self._fenced = Counter(
            "reconciler_fenced_writes",
            "Writes that were refused, since the run was no longer this node's.",
            ["operation"],
            registry=registry,
        )
        for operation in ("finish", "hand_back", "log"):
            self._fenced.labels(operation=operation)
        self._store_faults = Counter(
            "reconciler_store_faults", "Steps that needed the store and did not get it.", ["step"], registry=registry
        )

    def handlers(self) -> Mapping[type[Event], Callable[[Any], None]]:
        """Say which event moves what."""
        return {
            RunsClaimed: self._on_claim,
            RunRecorded: self._on_recorded,
            LeaseRenewed: lambda event: self._renewal.observe(event.seconds),
            RenewalMissed: lambda _: self._renewals_missed.inc(),
            SessionLost: lambda _: self._lost.inc(),
            FencedOut: lambda event: self._fenced.labels(operation=event.operation).inc(),
            StoreFailed: lambda event: self._store_faults.labels(step=event.step).inc(),
        }

    def _on_claim(self, event: RunsClaimed) -> None:
        self._claim_seconds.observe(event.seconds)
        self._claimed.inc(len(event.waited_seconds))
        for seconds in event.waited_seconds:
            self._lag.observe(seconds)

    def _on_recorded(self, event: RunRecorded) -> None:
        definition = self._names.label(event.definition)
        self._attempts.labels(definition, event.result).inc()
        self._seconds.labels(definition, event.result).observe(event.seconds)
        if event.state in TERMINAL:
            self._runs.labels(definition, event.state).inc()


class SlotInstruments:
    """What a leader counts of slots and of the runs that wait for an instant."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._misfires = Counter(
            "reconciler_misfires",
            "Slots that were noticed too late, by the policy that decided over them.",
            ["policy"],
            registry=registry,
        )
        self._deferred = Counter(
            "reconciler_deferred", "Slots that waited for a calendar to open.", ["calendar"], registry=registry
        )
        self._slots = Counter(
            "reconciler_slots",
            "Slots that this leader settled: run or skipped, and why.",
            ["result", "reason"],
            registry=registry,
        )
        self._slots.labels(result="run", reason="")
        self._retries = Counter(
            "reconciler_retries", "Runs whose backoff ended, so that they are claimable again.", registry=registry
        )
        self._expired = Counter(
            "reconciler_runs_expired", "Runs that nobody started by their starting deadline.", registry=registry
        )

    def handlers(self) -> Mapping[type[Event], Callable[[Any], None]]:
        """Say which event moves what."""
        return {
            SlotsSettled: self._on_slots,
            RunsAwoken: lambda event: self._retries.inc(event.retried),
            RunsExpired: lambda event: self._expired.inc(len(event.runs)),
        }

    def _on_slots(self, event: SlotsSettled) -> None:
        self._slots.labels("run", "").inc(event.runs)
        for reason, number in event.skipped.items():
            self._slots.labels("skipped", reason).inc(number)
        for policy, number in event.misfires.items():
            self._misfires.labels(policy).inc(number)
        for calendar, number in event.deferred.items():
            self._deferred.labels(calendar).inc(number)


class LeaderInstruments:
    """What a leader candidate counts."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._clock = clock
        self._of_slots = SlotInstruments(registry)
        self._leads = Gauge("reconciler_leader", "Whether this process leads.", registry=registry)
        self._transitions = Counter(
            "reconciler_leader_transitions", "Terms that this process began.", registry=registry
        )
        self._passes = Counter(
            "reconciler_reconcile",
            "Passes over a source, by what came of them.",
            ["source", "result"],
            registry=registry,
        )
        self._pass_seconds = Histogram(
            "reconciler_reconcile_duration_seconds",
            "How long a pass took.",
            ["source"],
            buckets=(0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0),
            registry=registry,
        )
        self._in_sync = Gauge(
            "reconciler_reconcile_last_success_timestamp_seconds",
            "When this process last saw that the store holds exactly what the source declares.",
            ["source"],
            registry=registry,
        )
        self._expiries = Counter(
            "reconciler_lease_expiries", "Runs that this leader took from sessions that are over.", registry=registry
        )
        self._parked = Counter(
            "reconciler_lost_lease_dead_letters", "Runs parked for losing too many leases.", registry=registry
        )
        self._steps = Counter(
            "reconciler_clock_steps",
            "Times that this leader saw the store's clock set, so that it held materialising.",
            ["direction"],
            registry=registry,
        )
        for direction in ("forward", "back"):
            self._steps.labels(direction=direction)
        self._is_held = Gauge(
            "reconciler_clock_held",
            "Whether materialising waits for the store's clock to be steady.",
            registry=registry,
        )
        self._duty_seconds = Histogram(
            "reconciler_duty_duration_seconds",
            "How long a leader's duty took.",
            ["duty"],
            buckets=_QUICK,
            registry=registry,
        )
        self._duty_faults = Counter(
            "reconciler_duty_failures", "Turns of a duty that failed.", ["duty"], registry=registry
        )

    def handlers(self) -> Mapping[type[Event], Callable[[Any], None]]:
        """Say which event moves what."""
        return {
            **self._of_slots.handlers(),
            TermBegun: self._on_term,
            TermEnded: lambda _: self._leads.set(0),
            TermResigned: lambda _: self._leads.set(0),
            PassMade: self._on_pass,
            SourceRead: self._on_read,
            RunsReaped: self._on_reaped,
            ClockStepped: self._on_step,
            ClockSteady: lambda _: self._is_held.set(0),
            DutyDone: lambda event: self._duty_seconds.labels(event.duty).observe(event.seconds),
            DutyFailed: lambda event: self._duty_faults.labels(event.duty).inc(),
        }

    def _on_term(self, _: TermBegun) -> None:
        self._leads.set(1)
        self._transitions.inc()

    def _on_pass(self, event: PassMade) -> None:
        self._passes.labels(event.source, event.state).inc()
        self._pass_seconds.labels(event.source).observe(event.seconds)

    def _on_read(self, event: SourceRead) -> None:
        if event.in_sync:
            self._in_sync.labels(event.source).set(self._clock.now_us() / SECOND_US)

    def _on_step(self, event: ClockStepped) -> None:
        self._steps.labels("forward" if event.seconds > 0 else "back").inc()
        self._is_held.set(1)

    def _on_reaped(self, event: RunsReaped) -> None:
        self._expiries.inc(len(event.put_back) + len(event.parked) + len(event.cancelled))
        self._parked.inc(len(event.parked))


def counting(*handlers: Mapping[type[Event], Callable[[Any], None]]) -> Callable[[Event], None]:
    """Make a subscriber of what the instruments say moves them; two may listen to one event."""
    table: dict[type[Event], list[Callable[[Any], None]]] = {}
    for each in handlers:
        for kind, handle in each.items():
            table.setdefault(kind, []).append(handle)

    def count(event: Event) -> None:
        for handle in table.get(type(event), ()):
            handle(event)

    return count
