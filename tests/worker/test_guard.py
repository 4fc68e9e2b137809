"""The guard process and its jobs, without a store; what needs time to pass stands in tests/e2e."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.worker.wire import LEASE_OVER, Spawned, SpawnFailed, Stop
from tests.worker.hands import Hands, guarded
from tests.worker.trees import HIDDEN, HIDDEN_SIZE, TREE, TREE_SIZE
from tests.worker.waiting import until

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    with guarded(tmp_path) as hands:
        yield hands


@pytest.mark.parametrize(
    ("script", "exit_code", "signal"), [("exit 0", 0, None), ("exit 75", 75, None), ("kill -SEGV $$", None, 11)]
)
def test_the_end_of_a_job_is_told_with_its_exit_code_or_signal(
    hands: Hands, script: str, exit_code: int | None, signal: int | None
) -> None:
    hands.sh("1.1", script)

    over = hands.over("1.1")
    assert (over.exit_code, over.signal, over.timed_out, over.stopped) == (exit_code, signal, False, None)
    assert (over.leftovers, over.survivors) == (0, 0)


def test_a_job_leads_a_session_of_its_own_and_inherits_nothing_but_its_output(hands: Hands) -> None:
    reading, writing = os.pipe()
    hands.spawn(
        "1.1", "sh", "-c", "cut -d' ' -f1,5,6 /proc/$$/stat; ls /proc/$$/fd; env | cut -d= -f1 | sort", output=writing
    )
    hands.over("1.1")

    first, *rest = os.read(reading, 65_536).decode().split()
    os.close(reading)
    assert rest[:2] == [first, first]
    assert rest[2:5] == ["0", "1", "2"]
    assert set(rest[5:]) <= {"3", "PATH", "PWD", "RECONCILER_CLAIM", "TEST_MARK", "SHLVL", "_"}


def test_signals_that_the_guard_takes_no_notice_of_act_on_jobs_as_usual(hands: Hands) -> None:
    hands.sh("1.1", "kill -TERM $$; exit 0")

    assert hands.over("1.1").signal == 15


def test_what_a_job_leaves_behind_is_killed_before_its_end_is_told(hands: Hands) -> None:
    hands.sh("1.1", TREE.replace("wait\n", f"{HIDDEN.format(mark=hands.marked.mark)}\nsleep 0.3; exit 0\n"))

    over = hands.over("1.1")
    assert hands.marked.count() == 0
    assert over.exit_code == 0
    assert over.leftovers >= TREE_SIZE - 1 + HIDDEN_SIZE


def test_ending_one_job_leaves_the_orphans_of_another_alone(hands: Hands) -> None:
    hands.sh("1.1", TREE)
    until(lambda: hands.marked.count() == TREE_SIZE)

    hands.sh("2.1", "(setsid sleep 300 &); exit 0")
    assert hands.over("2.1").leftovers == 1
    assert hands.marked.count() == TREE_SIZE

    hands.guard.say(Stop("1.1", "test", 0.0))
    assert hands.over("1.1").stopped == "test"
    assert hands.marked.count() == 0


@pytest.mark.parametrize("at_once", [False, True])
def test_a_process_that_hid_whose_it_is_dies_with_the_last_job_that_may_have_started_it(
    hands: Hands, at_once: bool
) -> None:
    scrubbed = f"(env -i setsid /bin/sh -c 'sleep 300; true' {hands.marked.mark} &) ; exec sleep 300"
    hands.sh("1.1", scrubbed)
    hands.sh("2.1", "exec sleep 300")
    hands.hear(Spawned, job="2.1")
    until(lambda: hands.marked.count() == 3)

    for job in ("2.1", "1.1"):
        hands.guard.say(Stop(job, "test", 5.0))
        if not at_once:
            hands.over(job)
    hands.over("2.1")
    hands.over("1.1")
    assert hands.marked.count() == 0


def test_a_program_that_is_missing_or_not_executable_is_told_in_words(hands: Hands, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("data")
    hands.spawn("1.1", "/does/not/exist")
    hands.spawn("2.1", str(plain))
    hands.spawn("3.1", "/bin/true", "a\0b")

    assert "'/does/not/exist' does not exist" in hands.hear(SpawnFailed, job="1.1").error
    assert "may not be executed" in hands.hear(SpawnFailed, job="2.1").error
    assert "could not be started" in hands.hear(SpawnFailed, job="3.1").error


def test_a_job_of_another_session_is_not_started(hands: Hands) -> None:
    hands.adopt(epoch=6)
    hands.sh("1.1", "exit 0")

    assert hands.hear(SpawnFailed, job="1.1").error == LEASE_OVER


def test_jobs_cannot_gain_privileges(hands: Hands) -> None:
    hands.sh("1.1", "grep -q '^NoNewPrivs:[[:space:]]*1' /proc/self/status")

    assert hands.over("1.1").exit_code == 0


def test_many_jobs_at_once_are_each_told_once(hands: Hands) -> None:
    for job in range(100):
        hands.sh(f"{job}.1", f"(setsid sleep 300 &); exit {job}")

    codes = {job: hands.over(f"{job}.1").exit_code for job in range(100)}
    assert codes == {job: job for job in range(100)}
    assert hands.marked.count() == 0


def test_the_guard_leaves_without_ending_a_session_that_the_worker_has_ended(hands: Hands) -> None:
    hands.sh("1.1", TREE)
    until(lambda: hands.marked.count() == TREE_SIZE)
    hands.guard.leave()

    assert hands.marked.count() == 0
    assert hands.log() == []
