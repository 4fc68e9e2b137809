"""A worker in the hands of a test, on a real store: the test turns its loop, real processes do the work."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from reconciler.clock import SystemClock
from reconciler.errors import StoreUnavailableError
from reconciler.model.definition import Job
from reconciler.model.lease import Timings
from reconciler.model.run import AttemptOutcome
from reconciler.store import queries, schema
from reconciler.store.database import Database
from reconciler.telemetry import Event, subscribe
from reconciler.worker.loop import Worker
from reconciler.worker.options import WorkerOptions
from reconciler.worker.run import open_worker
from tests.store.cast import Store, job
from tests.turned import TurnedClock
from tests.worker.waiting import until

FAST = Timings(lease_seconds=6.0, heartbeat_seconds=1.0)
Kind = TypeVar("Kind", bound=Event)


def command(name: str, *argv: str, **spec: Any) -> Job:
    """Declare a job that starts a program."""
    return job(name, handler={"type": "command", "with": {"argv": list(argv)}}, **spec)


def python(name: str, script: str, **spec: Any) -> Job:
    """Declare a job that runs a few lines of Python."""
    return command(name, sys.executable, "-I", "-c", script, **spec)


@dataclass
class Stage:
    """A store with a leader, one worker, and everything the worker told."""

    store: Store
    worker: Worker
    events: list[Event] = field(default_factory=list)

    def turn_until(self, happened: Callable[[], object], *, seconds: float = 20.0) -> None:
        """Turn the worker's loop until something is so."""

        def turned() -> object:
            self.worker.step()
            self.worker.wait()
            return happened()

        until(turned, seconds=seconds)

    def turn_for(self, seconds: float) -> None:
        """Turn the worker's loop for a while, whatever happens."""
        ends_at = SystemClock().elapsed() + seconds
        self.turn_until(lambda: SystemClock().elapsed() >= ends_at, seconds=seconds + 10)

    def reaped(self, run_id: int) -> bool:
        """Do the leader's part for sessions that are over, if the store is there; give whether the run is over."""
        try:
            self.store.reap()
            return self.store.run(run_id).is_over
        except StoreUnavailableError:
            return False

    def run(self, definition: Job, **options: Any) -> queries.RunRow:
        """Declare a job, trigger it and turn until its run is over."""
        self.store.apply(definition)
        run_id = self.store.trigger(definition.name, **options)
        self.turn_until(lambda: self.store.run(run_id).is_over)
        return self.store.run(run_id)

    def told(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    def attempts(self, run_id: int) -> list[queries.AttemptRow]:
        return self.store.database.read(lambda tx: queries.attempts_of(tx, run_id))

    def outcomes(self, run_id: int) -> list[AttemptOutcome]:
        return [AttemptOutcome(attempt.outcome) for attempt in self.attempts(run_id)]

    def is_running(self, run_id: int) -> bool:
        return self.store.run(run_id).state == "Running"


@contextmanager
def staged(url: str, folder: Path, *, worker_url: str | None = None, **options: Any) -> Iterator[Stage]:
    """A migrated store and a worker on it (perhaps by another way); the worker is drained at the end."""
    database = Database.open(url)
    schema.upgrade(database)
    store = Store(database, TurnedClock())
    settings: dict[str, Any] = {"slots": 4, "allow": ["*"], "timings": FAST, "data": folder / "data", **options}
    worker = open_worker(WorkerOptions("n1", worker_url or url, **settings))
    stage = Stage(store, worker)
    stop = subscribe(stage.events.append)
    try:
        yield stage
    finally:
        worker.drain()
        worker.drain()
        worker.run()
        stop()
        database.close()
