"""Real processes of one test, all under one deadline: whoever has not ended by then is killed and named."""

import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any, Self

import pytest

SPAWN = multiprocessing.get_context("spawn")
"""No process of the product is forked from one with threads; neither is one of its tests."""


class Crowd:
    """Processes that run functions of importable modules. Leaving the block kills what is left of them."""

    def __init__(self, folder: Path, *, seconds: float) -> None:
        self._folder = folder
        self._deadline = time.monotonic() + seconds
        self._processes: list[SpawnProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def start(self, name: str, act: Callable[..., None], *arguments: Any) -> None:
        """Run `act(*arguments)` in a new process; what it prints and raises goes to a log of its own."""
        process = SPAWN.Process(target=_play, args=(self._log_of(name), act, arguments), name=name)
        process.start()
        self._processes.append(process)

    def await_end(self) -> None:
        """Until every process has ended well; fails with what they said otherwise."""
        for process in self._processes:
            process.join(self.seconds_left)
        late = [process.name for process in self._processes if process.is_alive()]
        self._kill()
        assert not late, self.told(f"killed at the deadline: {late}")
        self._assert_none_ended_badly("the end")

    def await_that(self, what: str, is_so: Callable[[], bool]) -> None:
        """Until something is so; fails at the deadline, or as soon as a process has ended badly."""
        while not is_so():
            self._assert_none_ended_badly(what)
            assert self.seconds_left, self.told(f"waited in vain for {what}")
            time.sleep(0.02)

    def pass_gate(self, gate: Barrier) -> None:
        """Wait at a gate for those who have to be there; fails with what they said if one of them never comes."""
        try:
            gate.wait(self.seconds_left)
        except BrokenBarrierError:
            pytest.fail(self.told("somebody did not come to the gate"), pytrace=False)

    def said(self) -> str:
        """Everything the processes printed or raised so far."""
        logs = ((each.name, self._log_of(each.name)) for each in self._processes)
        return "\n".join(f"--- {name}:\n{log.read_text()}" for name, log in logs if log.exists() and log.stat().st_size)

    def told(self, what: str) -> str:
        return f"{what}\n{self.said()}"

    def _assert_none_ended_badly(self, what: str) -> None:
        bad = {each.name: each.exitcode for each in self._processes if each.exitcode}
        assert not bad, self.told(f"waited for {what}; ended badly, with these exit codes: {bad}")

    def _kill(self) -> None:
        for process in self._processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _log_of(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def _play(log: Path, act: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    act(*arguments)
