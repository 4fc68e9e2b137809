"""Whatever dies or hangs, the processes of a job are gone in time (I5, I6, R8); here without a store.

The processes are counted by a mark in /proc, not by what guard or worker believe.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from reconciler.worker.wire import LEASE_OVER, Exited, Lost, RenewalFailed, Renewed, Stop
from tests.worker.hands import Hands, guarded
from tests.worker.pipes import read_all
from tests.worker.trees import HIDDEN, HIDDEN_SIZE, TREE, TREE_SIZE, Marked
from tests.worker.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

GONE_WITHIN = 2.0
ALL = TREE_SIZE + HIDDEN_SIZE


def whole_tree(marked: Marked) -> str:
    """Child, grandchild, session of its own, double fork, and two that hid everything; the shell waits for them."""
    return TREE.replace("wait\n", f"{HIDDEN.format(mark=marked.mark)}\nwait\n")


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    with guarded(tmp_path) as hands:
        yield hands


def start_tree(hands: Hands, job: str = "1.1") -> None:
    hands.sh(job, whole_tree(hands.marked))
    until(lambda: hands.marked.count() == ALL)


@pytest.mark.case("PRC-01")
@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(("sh", "-c", "echo partial; sleep 300 & sleep 300 & wait"), id="a-children-hold-the-pipe"),
        pytest.param(("bash", "-c", "echo partial; yes | cat >/dev/null; true"), id="b-pipeline"),
        pytest.param(("sh", "-c", "echo partial; setsid sleep 300 & wait"), id="c-left-the-group"),
    ],
)
def test_a_timeout_ends_the_whole_tree_and_the_reader_and_keeps_the_output(hands: Hands, argv: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    started = time.monotonic()
    hands.spawn("1.1", *argv, timeout=1.0, grace=2.0, output=writing)

    over = hands.over("1.1")
    assert 1.0 <= time.monotonic() - started < 4.0
    assert over.timed_out
    assert hands.marked.count() == 0
    assert read_all(reading) == b"partial\n"


@pytest.mark.case("PRC-03")
def test_a_job_that_ignores_term_is_killed_after_its_grace_period(hands: Hands) -> None:
    started = time.monotonic()
    hands.sh("1.1", 'trap "" TERM; while :; do sleep 1; done', timeout=2.0, grace=3.0)

    over = hands.over("1.1")
    assert 5.0 <= time.monotonic() - started < 7.0
    assert (over.timed_out, over.signal, over.signals_sent) == (True, signal.SIGKILL, ["SIGTERM", "SIGKILL"])
    assert hands.marked.count() == 0


@pytest.mark.case("PRC-03")
def test_stopping_a_job_goes_the_same_way_as_its_timeout(hands: Hands) -> None:
    hands.sh("1.1", 'trap "" TERM; while :; do sleep 1; done')
    until(lambda: hands.marked.count() >= 1)
    started = time.monotonic()
    hands.guard.say(Stop("1.1", "drained", 1.0))

    over = hands.over("1.1")
    assert 1.0 <= time.monotonic() - started < 2.5
    assert (over.timed_out, over.stopped, over.signals_sent) == (False, "drained", ["SIGTERM", "SIGKILL"])


def test_a_tree_may_end_in_order_within_its_grace_period(hands: Hands, tmp_path: Path) -> None:
    last_words = tmp_path / "last-words"
    child = f"trap 'sleep 0.5; echo done > {last_words}; exit 0' TERM; sleep 300 & wait"
    hands.sh("1.1", f'sh -c "{child}" & wait', timeout=1.0, grace=10.0)

    over = hands.over("1.1", seconds=5.0)
    assert over.signals_sent == ["SIGTERM"]
    assert last_words.read_text() == "done\n"


def test_a_stopped_job_takes_its_term_and_ends(hands: Hands) -> None:
    hands.sh("1.1", "kill -STOP $$; exit 0", timeout=1.0, grace=5.0)

    over = hands.over("1.1", seconds=3.0)
    assert over.signals_sent == ["SIGTERM"]


def test_a_fork_storm_that_ignores_term_is_ended(hands: Hands) -> None:
    storm = "trap '' TERM; n=0; while [ $n -lt 200 ]; do setsid sleep 300 & n=$((n+1)); done; wait"
    hands.sh("1.1", storm, timeout=1.0, grace=0.5)

    assert hands.over("1.1").timed_out
    assert hands.marked.count() == 0


def test_the_lease_is_kept_while_the_worker_answers_and_no_longer(hands: Hands) -> None:
    start_tree(hands)
    for _ in range(3):
        hands.heard.clear()
        hands.hear(Renewed, seconds=3.0)
    assert hands.marked.count() == ALL
    renewed_at = hands.clock.elapsed()

    # A worker that is stopped says nothing; two heartbeats later it is not renewed any more.
    over = hands.over("1.1", seconds=15.0, alive=False)
    assert over.stopped == LEASE_OVER
    assert hands.marked.count() == 0
    last_renewal = [message for _, message in hands.heard if isinstance(message, Renewed)][-1:]
    lease_began = last_renewal[0].asked_at if last_renewal else renewed_at
    ended = hands.said(Exited)
    assert ended
    assert ended[0] <= lease_began + 6.0 - 1.0 + 0.3
    assert hands.hear(Lost, alive=False).epoch == 5
    assert "ended 5" not in hands.log()


@pytest.mark.parametrize("fault", ["away", "hang"])
def test_a_store_that_is_away_or_hangs_ends_the_jobs_at_lease_minus_margin(tmp_path: Path, fault: str) -> None:
    with guarded(tmp_path, lease=3.0, heartbeat=0.5, margin=0.75) as hands:
        (tmp_path / fault).touch()
        began = hands.adopt()
        start_tree(hands)

        over = hands.over("1.1")
        ended_after = hands.clock.elapsed() - began
        assert 1.0 < ended_after <= 3.0 - 0.75 + 0.3
        assert over.stopped == LEASE_OVER
        assert hands.marked.count() == 0
        assert hands.hear(Lost).epoch == 5
        assert bool(hands.said(RenewalFailed)) == (fault == "away")


def test_term_comes_before_the_lease_ends_so_that_a_job_can_end_in_order(tmp_path: Path) -> None:
    with guarded(tmp_path, lease=3.0, heartbeat=0.5, margin=0.75) as hands:
        (tmp_path / "away").touch()
        began = hands.adopt()
        words = tmp_path / "last-words"
        hands.sh("1.1", f"trap 'echo done > {words}; exit 0' TERM; sleep 300 & wait", grace=10.0)

        over = hands.over("1.1")
        # TERM a third of the lease before KILL
        assert 1.1 <= hands.clock.elapsed() - began <= 1.6
        assert (over.exit_code, over.stopped, over.signals_sent) == (0, LEASE_OVER, ["SIGTERM"])
        assert words.exists()


def test_a_refused_renewal_ends_the_jobs_at_once(tmp_path: Path) -> None:
    with guarded(tmp_path, lease=30.0, heartbeat=0.5, margin=3.0) as hands:
        start_tree(hands)
        (tmp_path / "refuse").touch()

        assert hands.hear(Lost).reason == "the store says that it is over"
        until(lambda: hands.marked.count() == 0, seconds=GONE_WITHIN)
        assert hands.over("1.1").stopped == LEASE_OVER


WORKER = """
import os, sys
from pathlib import Path
from tests.worker.hands import guarded
from tests.worker.trees import Marked
with guarded(Path(sys.argv[1])) as hands:
    hands.marked = Marked(sys.argv[2])
    print(hands.guard.pid, flush=True)
    hands.sh("1.1", sys.argv[3])
    hands.sh("2.1", "exec sleep 300")
    while True:
        hands.turn()
        hands.clock.wait(__import__("threading").Event(), 0.05)
"""


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    marked = Marked(f"mark-{tmp_path}")
    yield marked
    assert marked.kill() == 0


@pytest.fixture
def worker(tmp_path: Path, marked: Marked) -> Iterator[subprocess.Popen[str]]:
    """A process that has a guard and two jobs, and is nothing but a worker's loop."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path), marked.mark, whole_tree(marked)],
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        yield process
        process.kill()


def guard_of(worker: subprocess.Popen[str]) -> psutil.Process:
    assert worker.stdout
    return psutil.Process(int(worker.stdout.readline()))


@pytest.mark.parametrize("to", ["process", "group"])
def test_the_jobs_of_a_worker_that_is_killed_are_gone_and_then_its_session_is_ended(
    tmp_path: Path, marked: Marked, worker: subprocess.Popen[str], to: str
) -> None:
    guard = guard_of(worker)
    # the worker's own command line carries the mark too
    until(lambda: marked.count() == ALL + 2)
    (tmp_path / "scratch" / "run-1").mkdir()

    if to == "group":
        os.killpg(worker.pid, signal.SIGKILL)
    else:
        worker.kill()

    assert until(lambda: marked.count() == 0, seconds=GONE_WITHIN) < GONE_WITHIN
    until(lambda: not guard.is_running() or guard.status() == psutil.STATUS_ZOMBIE)
    assert (tmp_path / "log").read_text().splitlines()[-1] == "ended 5"
    assert not (tmp_path / "scratch").exists()


def test_the_jobs_of_a_worker_that_is_stopped_are_gone_before_its_lease_is_over(
    marked: Marked, worker: subprocess.Popen[str]
) -> None:
    guard_of(worker)
    until(lambda: marked.count() == ALL + 2)
    stopped_at = time.monotonic()
    os.kill(worker.pid, signal.SIGSTOP)

    until(lambda: marked.count() == 1, seconds=12.0)
    # It counted as alive for two heartbeats (4 s), so the last renewal was at most that late.
    assert time.monotonic() - stopped_at <= 4.0 + 6.0 - 1.0 + 0.5


def test_a_guard_that_is_stopped_with_its_worker_killed_ends_the_jobs_when_it_goes_on(
    marked: Marked, worker: subprocess.Popen[str]
) -> None:
    guard = guard_of(worker)
    until(lambda: marked.count() == ALL + 2)
    guard.suspend()
    worker.kill()
    guard.resume()

    until(lambda: marked.count() == 0, seconds=GONE_WITHIN)
