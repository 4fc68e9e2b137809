"""The scheduler: greenlets that take turns at every statement, a time of their own, and faults at chosen steps.

A process has one or more threads. Each is a greenlet that comes back here at BEGIN, before each statement, before and
after COMMIT, and when it waits. A step takes a millisecond; time jumps when nobody has anything to do. In the plain
order a thread goes on until it waits, and then comes whoever waited longest; a seed says at which steps that is left.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

from greenlet import getcurrent, greenlet

from reconciler.clock import SECOND_US
from tests.protocol.simulation.cast import Point, Process, StoreFault, Thread, Transaction
from tests.protocol.simulation.faults import fault_at
from tests.protocol.simulation.plan import Fault, Scenario, Tape, between_leases, chance_of, wall_step_us
from tests.turned import START_US

_wanted_at: Final = attrgetter("wake_us")
ELAPSED_START_US: Final = 1000 * SECOND_US
_STEP_US: Final = 1000
_ASK_US: Final = SECOND_US // 5
_LOCKED_OUT_US: Final = 3 * SECOND_US
"""After how long a thread that waits for the write lock looks again, though nobody gave it back."""


class World:
    """One simulated machine."""

    def __init__(self, scenario: Scenario, tape: Tape, *, is_traced: bool) -> None:
        """Begin with nobody."""
        self.scenario = scenario
        self.elapsed_us = ELAPSED_START_US
        self.walls: list[tuple[int, int]] = [(0, START_US - ELAPSED_START_US)]
        """(since when, how far ahead of elapsed time) of the wall clock."""
        self.steps = 0
        self.transactions = [Transaction(0, "the stage", ELAPSED_START_US, START_US, term=0)]
        """Every writing transaction; the first one set the stage."""
        self.stamps: list[tuple[int, int, int]] = []
        """(transaction, elapsed, wall) of each change of a row."""
        self.faults: list[tuple[int, int, Fault, str]] = []
        """(elapsed, step, what, whom) of each fault that took hold."""
        self.broken: list[str] = []
        """Errors that no thread may meet."""
        self.trace: list[str] | None = [] if is_traced else None
        self._tape = tape
        self._root = getcurrent()
        self._threads: list[Thread] = []
        self._current: Thread | None = None
        self._last: Thread | None = None
        self._writer: Thread | None = None
        self.is_calm = False
        """Whether faults are over."""
        self._priorities: dict[str, float] = {}

    def wall_us(self) -> int:
        """Give the wall time of the machine."""
        return self.elapsed_us + self.walls[-1][1]

    def latest_wall_us(self, begun_us: int, ended_us: int) -> int:
        """Give the latest wall time that anyone can have read in a stretch of elapsed time."""
        ends = [at_us for at_us, _ in self.walls[1:]]
        return max(
            min(ended_us, until_us) + ahead_us
            for (since_us, ahead_us), until_us in zip(self.walls, [*ends, ended_us], strict=True)
            if since_us <= ended_us and until_us >= begun_us
        )

    def stamp(self) -> int:
        """Note who changes a row, and when; give where that stands in `stamps`."""
        thread = self._current
        number = 0 if thread is None or thread.transaction is None else thread.transaction.number
        self.stamps.append((number, self.elapsed_us, self.wall_us()))
        return len(self.stamps) - 1

    def add(self, process: Process, *, after_us: int = 0) -> None:
        """Start a process."""
        process.starts += 1
        process.when_gone.clear()
        for name, body in process.bodies(process):
            at_us = self.elapsed_us + after_us
            self._threads.append(Thread(name, process, greenlet(self._guarded(name, body)), at_us, at_us))
            if name not in self._priorities:
                self._priorities[name] = chance_of(self.scenario.seed, f"priority/{name}").random()
        self._threads.sort(key=lambda each: each.name)

    def run(self, until_us: int, *, is_over: Callable[[], bool]) -> bool:
        """Let the threads take turns until then, or until `is_over`, which is asked now and then; True when it was."""
        ask_us = self.elapsed_us
        while self.elapsed_us < until_us and not self.broken:
            if self.elapsed_us >= ask_us:
                if is_over():
                    return True
                ask_us = self.elapsed_us + _ASK_US
            self._step()
        return is_over()

    def calm(self) -> None:
        """Let every fault end, and none happen any more: from now on runs must end."""
        self.is_calm = True
        for thread in self._threads:
            thread.turn_us, thread.process.cut_until_us = thread.wake_us, 0
            thread.process.frozen = [(begun, min(end, self.elapsed_us)) for begun, end in thread.process.frozen]

    def close(self) -> None:
        """End every thread."""
        self._drop(self._threads)

    # What threads call.

    def sleep(self, seconds: float) -> None:
        """Give the turn away for some time."""
        thread = self._me()
        self._give_turn(thread, Point.WAIT, self.elapsed_us + max(0, round(seconds * SECOND_US)))

    def wake(self, name: str) -> None:
        """End the sleep of another thread, unless it is held."""
        for each in self._threads:
            if each.name == name and each.point is Point.WAIT and not each.is_locked_out:
                each.turn_us = self.elapsed_us if each.turn_us == each.wake_us else each.turn_us
                each.wake_us = min(each.wake_us, self.elapsed_us)

    def wait_for_store(self, seconds: float) -> None:
        """Wait before a transaction is tried again: while another one writes, until it is over."""
        thread = self._me()
        if self._writer in {None, thread}:
            self.sleep(seconds)
            return
        thread.is_locked_out = True
        self._give_turn(thread, Point.WAIT, self.elapsed_us + _LOCKED_OUT_US)
        thread.is_locked_out = False

    @contextmanager
    def acting(
        self, *, term: int | None = None, node_id: int | None = None, reports: Mapping[int, int] | None = None
    ) -> Iterator[None]:
        """Say as what the current thread writes; the checker compares that with what is written."""
        thread = self._me()
        thread.term, thread.node_id, thread.reports = term, node_id, reports or {}
        try:
            yield
        finally:
            thread.term, thread.node_id, thread.reports = None, None, {}

    def on_statement(self, text: str, connection: sqlite3.Connection) -> None:
        """Let others go before a statement."""
        thread = self._current
        if thread is None:
            return
        self._tell(thread, text)
        if text.startswith("BEGIN"):
            self._begin(thread, is_writing=text.endswith("IMMEDIATE"))
            thread.changes_before = connection.total_changes
        elif text == "COMMIT":
            self._reach(thread, Point.COMMIT)
            self._end_transaction(thread, is_committed=True)
        else:
            self._reach(thread, Point.STATEMENT)

    def on_commit(self, connection: sqlite3.Connection) -> None:
        """Commit, with a turn for others before and after."""
        thread = self._current
        if thread is None or thread.transaction is None:
            return
        self._tell(thread, "COMMIT")
        thread.wrote = connection.total_changes > thread.changes_before
        try:
            self._reach(thread, Point.COMMIT)
        except StoreFault:
            connection.rollback()
            self._end_transaction(thread, is_committed=False)
            raise
        connection.commit()
        self._end_transaction(thread, is_committed=True)
        self._reach(thread, Point.COMMITTED)

    def on_rollback(self) -> None:
        """Note that a transaction is over and nothing of it stays."""
        if self._current is not None:
            self._end_transaction(self._current, is_committed=False)

    # Turns.

    def _me(self) -> Thread:
        if self._current is None:
            raise RuntimeError("only a thread of the simulation may do this")
        return self._current

    def _guarded(self, name: str, body: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                body()
            except Exception as fault:  # noqa: BLE001 - whatever it is, it is a finding
                self.broken.append(f"{name} died of {type(fault).__name__}: {fault}")

        return run

    def _begin(self, thread: Thread, *, is_writing: bool) -> None:
        self._reach(thread, Point.BEGIN)
        if self.elapsed_us < thread.process.cut_until_us:
            raise StoreFault("unable to open database file")
        if is_writing and self._writer is None:
            self._writer = thread
            thread.transaction = Transaction(
                number=len(self.transactions),
                thread=thread.name,
                begun_us=self.elapsed_us,
                begun_wall_us=self.wall_us(),
                term=thread.term,
                node_id=thread.node_id,
                reports=thread.reports,
            )
            self.transactions.append(thread.transaction)

    def _end_transaction(self, thread: Thread, *, is_committed: bool) -> None:
        if thread.transaction is not None and is_committed:
            thread.transaction.committed_us = self.elapsed_us
        thread.transaction = None
        if self._writer is thread:
            self._unlock()

    def _unlock(self) -> None:
        self._writer = None
        for each in self._threads:
            if each.is_locked_out:
                # Who is held as well, stays so.
                each.turn_us = self.elapsed_us if each.turn_us == each.wake_us else each.turn_us
                each.wake_us = self.elapsed_us

    def _reach(self, thread: Thread, point: Point) -> None:
        self._give_turn(thread, point, self.elapsed_us)
        fault, thread.fault = thread.fault, None
        if fault is not None:
            raise StoreFault("disk I/O error")

    def _give_turn(self, thread: Thread, point: Point, wake_us: int) -> None:
        thread.point = point
        thread.wake_us = thread.turn_us = wake_us
        self._root.switch()

    def _step(self) -> None:
        now_us = self.elapsed_us
        ready = [each for each in self._threads if each.turn_us <= now_us]
        if not ready:
            self.elapsed_us = min(each.turn_us for each in self._threads)
            return
        self.steps += 1
        self.elapsed_us += _STEP_US
        chosen = self._chosen(ready)
        if self._loses_turn(chosen):
            return
        self._current = self._last = chosen
        chosen.greenlet.switch()
        self._current = None
        if chosen.greenlet.dead:
            self._ended(chosen)

    def _chosen(self, ready: Sequence[Thread]) -> Thread:
        usual = self._last
        if usual is None or usual.point is Point.WAIT or usual not in ready:
            usual = min(ready, key=_wanted_at)
        if self.is_calm:
            return usual
        points = self.scenario.change_points
        whether, which, _, _ = self._tape.at(self.steps)
        if points is None:
            chosen = ready[int(which * len(ready))] if whether < self.scenario.switch_rate else usual
        else:
            chosen = max(ready, key=lambda each: self._priorities[each.name])
            if self.steps in points:
                self._priorities[chosen.name] = -self.steps
        if chosen is usual or not self._tape.allows(self.steps):
            return usual
        self._tape.note(self.steps)
        return chosen

    # Faults.

    def _loses_turn(self, thread: Thread) -> bool:
        """Strike a thread whose turn it is, if this step is one that does; True when its turn is lost by that."""
        scenario = self.scenario
        if self.is_calm or len(self.faults) >= scenario.most_faults or not self._tape.allows(self.steps):
            return False
        _, _, whether, which = self._tape.at(self.steps)
        drawn = fault_at(thread, scenario, whether, which)
        if drawn is None:
            return False
        fault, size = drawn
        self._tape.note(self.steps)
        self.faults.append((self.elapsed_us, self.steps, fault, thread.name))
        self._tell(thread, f"*** {fault} at {thread.point.name}")
        return self._strike(thread, fault, size)

    def _strike(self, thread: Thread, fault: Fault, size: float) -> bool:
        process, until_us = thread.process, self.elapsed_us + between_leases(size)
        match fault:
            case Fault.STALL:
                thread.turn_us = until_us
            case Fault.FREEZE:
                process.frozen.append((self.elapsed_us, until_us))
                for each in self._threads_of(process):
                    each.turn_us = max(each.turn_us, until_us)
            case Fault.CRASH:
                self._end(process, restart_after_us=until_us - self.elapsed_us)
            case Fault.CUT:
                process.cut_until_us = until_us
            case Fault.WALL_STEP:
                ahead_us = self.walls[-1][1] + wall_step_us(size, self.scenario.longest_step_seconds)
                self.walls.append((self.elapsed_us, ahead_us))
            case Fault.REFUSED | Fault.LOST_ACK:
                thread.fault = fault
        return fault in {Fault.STALL, Fault.FREEZE, Fault.CRASH}

    def _ended(self, thread: Thread) -> None:
        """A process ends with its first thread; most come back."""
        if thread.name == thread.process.name:
            self._end(thread.process, restart_after_us=SECOND_US // 2)
        else:
            self._threads.remove(thread)

    def _end(self, process: Process, *, restart_after_us: int) -> None:
        self._drop(self._threads_of(process))
        for note in process.when_gone:
            note()
        if process.comes_back:
            self.add(process, after_us=restart_after_us)

    def _drop(self, threads: Sequence[Thread]) -> None:
        """Let threads go as a kill does: their open transactions are rolled back."""
        for thread in list(threads):
            if not thread.greenlet.dead:
                thread.greenlet.throw()
            self._threads.remove(thread)
            if self._writer is thread:
                self._unlock()

    def _threads_of(self, process: Process) -> list[Thread]:
        return [each for each in self._threads if each.process is process]

    def _tell(self, thread: Thread, what: str) -> None:
        if self.trace is not None:
            at = (self.elapsed_us - ELAPSED_START_US) / SECOND_US
            self.trace.append(f"{self.steps:5} {at:7.3f} {thread.name:16} {' '.join(what.split())[:140]}")
