"""What happens is counted: each event moves its series, and no series can grow without end."""

from collections.abc import Iterator

import pytest
from prometheus_client import generate_latest

from reconciler.engine.clockwatch import ClockSteady, ClockStepped
from reconciler.engine.leader import TermBegun, TermResigned
from reconciler.engine.loop import DutyDone, DutyFailed
from reconciler.engine.materialise import RunsAwoken, SlotsSettled
from reconciler.engine.reap import RunsExpired, RunsReaped
from reconciler.metrics.exposition import Exposition
from reconciler.metrics.instruments import MOST_DEFINITIONS, OTHERS, LeaderInstruments, counting
from reconciler.reconcile.loop import PassMade, SourceRead
from reconciler.telemetry import emit, subscribe
from reconciler.worker.events import (
    FencedOut,
    LeaseRenewed,
    RenewalMissed,
    RunRecorded,
    RunsClaimed,
    SessionLost,
    StoreFailed,
)
from tests.metrics.scrape import series_of, value
from tests.turned import START_US, TurnedClock


def recorded(definition: str, result: str, state: str, seconds: float = 2.0) -> RunRecorded:
    return RunRecorded("n1", 1, 1, definition, result, state, seconds)


@pytest.fixture
def worker() -> Iterator[Exposition]:
    exposition = Exposition().of_worker(lambda: 3)
    yield exposition
    exposition.close()


@pytest.fixture
def leader() -> Iterator[Exposition]:
    """A leader's counters alone; the gauges of the store have tests of their own."""
    exposition = Exposition()
    instruments = LeaderInstruments(exposition.registry, TurnedClock())
    stop = subscribe(counting(instruments.handlers()))
    yield exposition
    stop()


def text(exposition: Exposition) -> str:
    return generate_latest(exposition.registry).decode()


def test_claims_count_runs_the_time_they_took_and_how_long_runs_had_been_due(worker: Exposition) -> None:
    emit(RunsClaimed("n1", 0.004, (0.02, 40.0)))
    emit(RunsClaimed("n1", 0.003, ()))

    shown = text(worker)
    assert value(shown, "runs_claimed_total") == 2
    assert value(shown, "claim_duration_seconds_count") == 2
    assert value(shown, "schedule_lag_seconds_sum") == pytest.approx(40.02)
    assert value(shown, "schedule_lag_seconds_bucket", le="30.0") == 1


def test_every_accepted_attempt_counts_and_a_run_only_when_it_is_over(worker: Exposition) -> None:
    emit(recorded("etl", "Failed", "Retrying"))
    emit(recorded("etl", "Failed", "DeadLettered"))

    shown = text(worker)
    assert value(shown, "attempts_total", definition="etl", outcome="Failed") == 2
    assert value(shown, "runs_total", definition="etl", outcome="DeadLettered") == 1
    assert value(shown, "runs_total", definition="etl", outcome="Retrying") is None
    assert value(shown, "run_duration_seconds_sum", definition="etl", outcome="Failed") == 4.0


def test_leases_renewals_refused_writes_and_faults_of_the_store_are_counted(worker: Exposition) -> None:
    emit(LeaseRenewed("n1", 0.002))
    emit(RenewalMissed("n1", "away"))
    emit(SessionLost("n1", 7, "over"))
    emit(FencedOut("n1", 1, 1, "finish"))
    emit(StoreFailed("n1", "claim", "away"))

    shown = text(worker)
    assert value(shown, "lease_renew_duration_seconds_count") == 1
    assert value(shown, "lease_renewals_missed_total") == 1
    assert value(shown, "leases_lost_total") == 1
    assert value(shown, "fenced_writes_total", operation="finish") == 1
    assert value(shown, "fenced_writes_total", operation="log") == 0, "there from the start, so that rates work"
    assert value(shown, "store_faults_total", step="claim") == 1
    assert value(shown, "leases_held") == 3


def test_a_leader_counts_its_terms_passes_slots_retries_and_what_it_reaped(leader: Exposition) -> None:
    emit(TermBegun("host/1", 4))
    emit(PassMade("default", "Applied", 0.2))
    emit(SourceRead("default", in_sync=True))
    emit(SlotsSettled(5, {"MisfireSkipped": 2}, {"FireNow": 3}, {"freeze": 4}))
    emit(RunsAwoken(5, 1))
    emit(RunsReaped([1, 2], [3]))
    emit(RunsExpired([4, 5]))
    emit(ClockStepped(-60.0))
    emit(DutyDone("reap", 0.01))
    emit(DutyFailed("reap", "away"))

    shown = text(leader)
    assert value(shown, "leader") == 1
    assert value(shown, "leader_transitions_total") == 1
    assert value(shown, "reconcile_total", source="default", result="Applied") == 1
    assert value(shown, "reconcile_last_success_timestamp_seconds", source="default") == START_US / 1e6
    assert value(shown, "slots_total", result="run", reason="") == 5
    assert value(shown, "slots_total", result="skipped", reason="MisfireSkipped") == 2
    assert value(shown, "misfires_total", policy="FireNow") == 3
    assert value(shown, "deferred_total", calendar="freeze") == 4
    assert value(shown, "retries_total") == 1
    assert value(shown, "lease_expiries_total") == 3
    assert value(shown, "lost_lease_dead_letters_total") == 1
    assert value(shown, "duty_failures_total", duty="reap") == 1
    assert value(shown, "runs_expired_total") == 2
    assert value(shown, "clock_steps_total", direction="back") == 1
    assert value(shown, "clock_held") == 1
    emit(ClockSteady(-60.0))
    assert value(text(leader), "clock_held") == 0


def test_a_pass_that_left_something_out_is_no_success(leader: Exposition) -> None:
    emit(SourceRead("default", in_sync=False))

    assert value(text(leader), "reconcile_last_success_timestamp_seconds", source="default") is None


def test_a_leader_that_ended_says_so(leader: Exposition) -> None:
    emit(TermBegun("host/1", 4))
    emit(TermResigned("host/1", 4))

    assert value(text(leader), "leader") == 0


def test_definitions_beyond_the_limit_share_one_series_and_that_is_told(worker: Exposition) -> None:
    for number in range(MOST_DEFINITIONS + 5):
        emit(recorded(f"job-{number}", "Succeeded", "Succeeded"))

    shown = text(worker)
    assert value(shown, "runs_total", definition=OTHERS, outcome="Succeeded") == 5
    assert value(shown, "metrics_truncated") == 1
    assert value(shown, "runs_total", definition="job-0", outcome="Succeeded") == 1


def test_no_series_has_a_label_named_job_or_one_for_a_run(worker: Exposition, leader: Exposition) -> None:
    emit(recorded("etl", "Succeeded", "Succeeded"))

    labels = {label for shown in (text(worker), text(leader)) for _, pairs in series_of(shown) for label, _ in pairs}
    assert labels.isdisjoint({"job", "instance", "run", "run_id", "fence"})


def test_a_closed_exposition_counts_no_more() -> None:
    exposition = Exposition().of_worker(lambda: 0)
    exposition.close()

    emit(RunsClaimed("n1", 0.1, (1.0,)))

    assert value(text(exposition), "runs_claimed_total") == 0
