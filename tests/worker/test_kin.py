"""Processes as /proc shows them."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.worker import kin
from reconciler.worker.kin import Process, children, descendants, look_at, marker_of, send
from reconciler.worker.wire import CLAIM_MARKER
from tests.worker.waiting import until

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def shell() -> Iterator["subprocess.Popen[bytes]"]:
    """A shell with a child and a grandchild."""
    script = "sleep 300 & sh -c 'sleep 300 & wait' & wait"
    with subprocess.Popen(["/bin/sh", "-c", script], env={CLAIM_MARKER: "7.3"}, start_new_session=True) as process:
        until(lambda: len(list(descendants(process.pid))) == 3)
        yield process
        os.killpg(process.pid, signal.SIGKILL)


def test_a_process_is_told_apart_by_pid_and_start(shell: "subprocess.Popen[bytes]") -> None:
    seen = look_at(shell.pid)

    assert seen
    assert (seen.pid, seen.parent, seen.session, seen.is_dead) == (shell.pid, os.getpid(), shell.pid, False)
    assert look_at(2**22 + 1) is None


def test_a_name_with_spaces_and_parentheses_confuses_nobody(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (b"
    shutil.copy("/bin/sleep", odd)
    with subprocess.Popen([str(odd), "300"]) as process:
        seen = look_at(process.pid)
        process.kill()

    assert seen
    assert (seen.parent, seen.is_dead) == (os.getpid(), False)


def test_the_walk_gives_parents_before_their_children(shell: "subprocess.Popen[bytes]") -> None:
    below = list(descendants(shell.pid))

    known = {shell.pid}
    for process in below:
        assert process.parent in known
        known.add(process.pid)


def test_a_kernel_without_lists_of_children_gives_the_same(
    shell: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    by_list = set(descendants(shell.pid))
    monkeypatch.setattr(kin, "_LISTS_CHILDREN", False)

    assert set(descendants(shell.pid)) == by_list
    assert shell.pid in children(os.getpid())


def test_the_marker_is_read_from_the_environment_of_every_descendant(shell: "subprocess.Popen[bytes]") -> None:
    assert {marker_of(process.pid) for process in descendants(shell.pid)} == {"7.3"}
    assert marker_of(2**22 + 1) is None


def test_a_dead_process_is_seen_as_dead(shell: "subprocess.Popen[bytes]") -> None:
    os.killpg(shell.pid, signal.SIGKILL)

    until(lambda: (seen := look_at(shell.pid)) is not None and seen.is_dead)


def test_a_signal_never_reaches_another_process_under_the_same_pid(shell: "subprocess.Popen[bytes]") -> None:
    seen = look_at(shell.pid)
    assert seen
    earlier = Process(seen.pid, seen.started - 1, seen.parent, seen.group, seen.session, is_dead=False)
    send(earlier, signal.SIGKILL)
    assert shell.poll() is None

    send(seen, signal.SIGKILL)
    assert shell.wait(5) == -signal.SIGKILL
