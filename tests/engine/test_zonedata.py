"""New time-zone data takes the lead: the slots to come follow it, none is lost or doubled, and it is told."""

from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from reconciler.clock import iso
from reconciler.engine import zonedata
from reconciler.engine.zonedata import ZoneData, ZoneDataChanged
from reconciler.schedule import occurrences
from reconciler.store import facts, timelines
from reconciler.telemetry import Event
from tests.store.cast import Store, calendar, job

HOUR = 3600
Installs = Callable[[str, str], None]


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> Installs:
    """Let Berlin keep another offset from now on, in a release of that name."""

    def install(version: str, zone: str) -> None:
        monkeypatch.setattr(zonedata, "tzdata_version", lambda: version)
        monkeypatch.setattr(occurrences, "load_zone", lambda name: ZoneInfo(zone if name == "Europe/Berlin" else name))
        timelines._compiled.cache_clear()  # noqa: SLF001 - a process has one release for life

    return install


def local(**trigger: Any) -> Any:
    return job("local", triggers=[{"cron": "30 7 * * *", "timeZone": "Europe/Berlin", **trigger}])


def follow(store: Store) -> None:
    ZoneData(store.database).follow(store.term)


def slots(store: Store, name: str = "local") -> list[str]:
    return [iso(row.slot_us or 0)[5:16] for row in store.runs(name)]


def test_slots_to_come_are_planned_by_the_new_data(store: Store, installs: Installs, events: list[Event]) -> None:
    installs("2026a", "Europe/Berlin")
    follow(store)
    store.apply(local(), job("utc", triggers=[{"cron": "30 7 * * *"}]), job("pulse", every="24h"))
    store.clock.turn(20 * HOUR)
    store.settle()

    installs("2026b", "Etc/GMT-2")
    store.lead("leader-b")
    follow(store)
    store.clock.turn(10 * HOUR)
    store.settle()

    assert slots(store) == ["01-01T06:30", "01-02T05:30"]
    assert slots(store, "utc") == ["01-01T07:30"]
    assert slots(store, "pulse") == ["01-02T00:00"]
    assert [each for each in events if isinstance(each, ZoneDataChanged)] == [ZoneDataChanged("2026a", "2026b", 1)]


def test_a_slot_that_the_new_data_puts_into_the_past_is_not_lost(store: Store, installs: Installs) -> None:
    installs("2026a", "Europe/Berlin")
    follow(store)
    store.apply(local())
    store.clock.turn(6 * HOUR)
    store.settle()

    installs("2026b", "Etc/GMT-2")
    follow(store)
    store.settle()

    assert slots(store) == ["01-01T05:30"]


def test_a_run_that_was_made_ahead_is_taken_back(store: Store, installs: Installs) -> None:
    installs("2026a", "Europe/Berlin")
    follow(store)
    store.apply(local())
    store.clock.turn(6 * HOUR + 30 * 60 - 3)
    store.settle()
    assert slots(store) == ["01-01T06:30"]

    installs("2026b", "UTC")
    follow(store)
    assert slots(store) == []
    store.clock.turn(HOUR + 3)
    store.settle()

    assert slots(store) == ["01-01T07:30"]


def test_jobs_with_calendars_follow_too(store: Store, installs: Installs) -> None:
    installs("2026a", "Europe/Berlin")
    follow(store)
    store.apply(
        calendar("night", {"daily": {"from": "22:00", "to": "06:00"}}, timeZone="Europe/Berlin"),
        job("minding", triggers=[{"every": "1h", "calendars": [{"name": "night"}]}]),
    )
    store.settle()

    installs("2026b", "UTC")
    follow(store)

    assert store.database.read(lambda tx: facts.known(tx, "tzdata")) == "2026b"


def test_the_same_data_changes_nothing(store: Store, installs: Installs, events: list[Event]) -> None:
    installs("2026a", "Europe/Berlin")
    follow(store)
    store.apply(local())
    store.clock.turn(6 * HOUR + 30 * 60 - 3)
    store.settle()

    store.lead("leader-b")
    follow(store)

    assert slots(store) == ["01-01T06:30"]
    assert not [each for each in events if isinstance(each, ZoneDataChanged)]


def test_more_triggers_than_a_batch_are_all_planned_anew(
    store: Store, installs: Installs, monkeypatch: pytest.MonkeyPatch
) -> None:
    installs("2026a", "Europe/Berlin")
    follow(store)
    store.apply(
        *(job(f"j{number}", triggers=[{"cron": "30 7 * * *", "timeZone": "Europe/Berlin"}]) for number in range(7))
    )
    monkeypatch.setattr(zonedata, "_BATCH", 3)

    installs("2026b", "Etc/GMT-2")
    follow(store)
    store.clock.turn(5 * HOUR + 30 * 60)
    store.settle()

    assert {each for number in range(7) for each in slots(store, f"j{number}")} == {"01-01T05:30"}
    assert len(store.runs()) == 7
