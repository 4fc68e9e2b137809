"""`why`, `pause` and `resume`: every slot has an answer, also those of a job that somebody stopped."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.clock import SECOND_US, iso
from reconciler.store import catchup, leader, slots
from reconciler.store.database import Database
from reconciler.store.slots import Bounds
from tests.reconcile.cast import document

Ask = Callable[..., Any]
HOUR_US = 3600 * SECOND_US


class Led:
    """The store of the installation, with a leader that settles when it is told to."""

    def __init__(self, url: str) -> None:
        self.database = Database.open(url)
        won = self.database.tx(lambda tx: leader.acquire(tx, "leader", ttl_us=HOUR_US))
        assert won is not None
        self.term = won
        self.now_us = self.database.read(lambda tx: tx.now_us())

    def settle(self, ahead_us: int = 0) -> None:
        bounds = Bounds(ahead_us, 20 * SECOND_US, 100)
        self.database.tx(lambda tx: slots.settle(tx, self.term, bounds))
        self.database.tx(lambda tx: catchup.end_pauses(tx, self.term, bounds))

    def shift_cursor(self, by_us: int) -> None:
        """Pretend that every trigger became active so much earlier."""
        with self.database.engine.begin() as connection:
            for column in ("activated_us", "cursor_us", "next_fire_us"):
                connection.exec_driver_sql(f"UPDATE triggers SET {column} = {column} - {by_us}")


@pytest.fixture
def led(home: Path, store_url: str, told: Ask) -> Iterator[Led]:
    """Leads over a job that fires at each whole hour, and was applied ten hours ago."""
    hourly = [{"name": "hourly", "every": "1h", "anchor": "2026-01-01T00:00:00Z"}]
    (home / "jobs.d" / "report.yaml").write_text(document("report", queue="reports", triggers=hourly))
    told("reconcile")
    made = Led(store_url)
    made.shift_cursor(10 * HOUR_US)
    yield made
    made.database.close()


def hour(led: Led, ago: int) -> str:
    return iso(led.now_us // HOUR_US * HOUR_US - ago * HOUR_US)


def test_a_slot_that_ran_names_its_run(led: Led, asked: Ask, told: Ask) -> None:
    led.settle()

    (answer,) = asked("why", "report", hour(led, 0))["answers"]

    assert (answer["fate"], answer["run"]["trigger"], answer["slot"]) == ("Run", "hourly", hour(led, 0))
    assert f"run {answer['run']['id']} is Pending" in told("why", "report", hour(led, 0))


def test_a_minute_of_which_a_slot_is_settled_tells_the_others_too(
    home: Path, store_url: str, asked: Ask, told: Ask
) -> None:
    seconds = [{"name": "seconds", "every": "1s", "anchor": "2026-01-01T00:00:00Z"}]
    (home / "jobs.d" / "report.yaml").write_text(document("report", queue="reports", triggers=seconds))
    told("reconcile")
    led = Led(store_url)
    minute_us = (led.now_us // (60 * SECOND_US) + 3) * 60 * SECOND_US
    led.shift_cursor(led.now_us - minute_us)
    led.settle(ahead_us=minute_us + 5 * SECOND_US - led.now_us)

    answers = asked("why", "report", iso(minute_us))["answers"]

    assert {each["fate"] for each in answers} == {"Run", "Planned"}
    assert len({each["slot"] for each in answers}) == len(answers) == 60
    led.database.close()


def test_a_slot_that_was_missed_says_by_which_rule(led: Led, asked: Ask, told: Ask) -> None:
    led.settle()

    (answer,) = asked("why", "report", hour(led, 3))["answers"]

    assert (answer["fate"], answer["reason"]) == ("Skipped", "MisfireSkipped")
    assert "did not run: MisfireSkipped: it was noticed too late" in told("why", "report", hour(led, 3))


def test_a_slot_that_nobody_settled_and_one_to_come_say_so(led: Led, asked: Ask, told: Ask) -> None:
    past, coming = (asked("why", "report", hour(led, ago))["answers"][0] for ago in (0, -1))

    assert (past["fate"], coming["fate"]) == ("Unsettled", "Planned")
    assert "no leader has decided on it yet" in told("why", "report", hour(led, 0))
    assert "is to come" in told("why", "report", hour(led, -1))


def test_an_instant_without_a_slot_names_the_next_one(led: Led, asked: Ask, told: Ask) -> None:
    at = hour(led, 0).replace(":00:00Z", ":07:00Z")

    (answer,) = asked("why", "report", at)["answers"]

    assert (answer["fate"], answer["nextSlot"]) == ("NoSlot", hour(led, -1))
    assert f"does not fire then; its next slot is {hour(led, -1)}" in told("why", "report", at)


def test_a_slot_of_before_the_last_change_does_not_count(led: Led, asked: Ask, told: Ask) -> None:
    (answer,) = asked("why", "report", hour(led, 24))["answers"]

    assert answer["fate"] == "BeforeActivation"
    assert "does not count: the trigger became active, or was changed" in told("why", "report", hour(led, 24))


def test_a_paused_job_tells_why_and_by_whom_wherever_one_looks(led: Led, asked: Ask, told: Ask) -> None:
    said = told("pause", "report", "--reason", "the mart is rebuilt", "--for", "2h")
    led.settle()

    assert said.startswith("paused report until 2")
    (answer,) = asked("why", "report", hour(led, 1))["answers"]
    assert answer["reason"] == "Paused"
    assert answer["detail"].endswith(": the mart is rebuilt")
    text = told("why", "report", hour(led, 1))
    assert "did not run: Paused (by os:" in text
    assert "`reconciler resume report` ends that" in text
    (job,) = [each for each in asked("get", "jobs")["items"] if each["name"] == "report"]
    assert job["paused"]["reason"] == "the mart is rebuilt"
    assert asked("describe", "job", "report")["paused"] == job["paused"]
    assert [each["job"] for each in asked("status")["paused"]] == ["report"]
    assert "the mart is rebuilt" in told("status")
    assert asked("status")["nextFires"] == []


def test_a_job_that_is_resumed_fires_again_and_may_catch_up(led: Led, asked: Ask, told: Ask) -> None:
    told("pause", "report")
    led.settle()

    said = told("resume", "report", "--catch-up")
    led.settle()

    assert said == "resumed report; the leader catches up with what it may\n"
    assert asked("why", "report", hour(led, 0))["answers"][0]["fate"] == "Run"
    assert asked("why", "report", hour(led, 1))["answers"][0]["reason"] == "Paused"
    assert asked("status")["paused"] == []


def test_runs_by_hand_that_stand_for_the_instant_are_told(led: Led, asked: Ask, told: Ask) -> None:
    told("trigger", "report", "--slot", hour(led, 5))

    answer = asked("why", "report", hour(led, 5))

    assert [each["trigger"] for each in answer["byHand"]] == ["manual"]
    assert "by hand  run " in told("why", "report", hour(led, 5))


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (("why", "reprot", "2026-01-01T00:00:00Z"), 1, "there is no job 'reprot', nor was there one"),
        (("why", "report", "noon"), 64, "'noon' is no instant with an offset"),
        (("pause", "reprot"), 1, "there is no job 'reprot'"),
        (("pause", "report", "--until", "2020-01-01T00:00:00Z"), 3, "would be over before it begins"),
        (("pause", "report", "--until", "2099-01-01T00:00:00Z", "--for", "1h"), 64, "exclude each other"),
        (("resume", "report"), 3, "job 'report' is not paused"),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_makes_no_sense_is_refused(told: Ask, line: tuple[str, ...], code: int, says: str) -> None:
    assert says in told(*line, code=code)
