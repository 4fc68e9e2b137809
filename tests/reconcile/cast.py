"""Someone who commits files to a folder, and a leader that reconciles it."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from reconciler.clock import SystemChance
from reconciler.model.lease import Timings
from reconciler.reconcile.apply import Applier, Ended, Source
from reconciler.reconcile.loop import Reconciler
from reconciler.store import definitions, passes
from reconciler.store.passes import PassState
from tests.store.cast import Store


def document(name: str, **spec: Any) -> str:
    """A job as a file."""
    body = {"handler": {"type": "slow", "with": {"duration": "1s"}}, **spec}
    return yaml.safe_dump({"apiVersion": "reconciler/v1", "kind": "Job", "metadata": {"name": name}, "spec": body})


@dataclass
class Committer:
    """Writes and removes files, and has them applied under the store's term."""

    store: Store
    folder: Path
    applier: Applier = field(init=False)

    def __post_init__(self) -> None:
        self.applier = self.applier_of(self.folder)

    def applier_of(self, folder: Path, *, name: str = "default", **how: Any) -> Applier:
        return Applier(
            self.store.database,
            Source(name, folder, **how),
            timings=Timings(),
            chance=SystemChance(),
            exclusive=threading.Lock(),
        )

    def write(self, name: str, **spec: Any) -> None:
        self.put(f"{name}.yaml", document(name, **spec))

    def declare(self, kind: str, name: str, **spec: Any) -> None:
        """Write an object of another kind, in a file of its own."""
        body = {"apiVersion": "reconciler/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.put(f"{kind.lower()}-{name}.yaml", yaml.safe_dump(body))

    def put(self, file: str, text: str) -> None:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}.yaml").unlink()

    def apply(self, applier: Applier | None = None, **options: Any) -> Ended:
        ended = (applier or self.applier).run(self.store.term, **options)
        assert ended is not None
        return ended

    def approve(self, digest: str) -> None:
        self.store.database.tx(lambda tx: passes.approve(tx, digest, actor="os:operator"))

    def live(self, kind: str = "Job") -> dict[str, definitions.StoredDefinition]:
        """What the store holds of a kind, by name."""
        found = self.store.database.read(lambda tx: definitions.listed(tx, limit=1000, kind=kind))
        return {each.name: each for each in found}


def loop_over(committer: Committer, source: Source) -> Reconciler:
    store = committer.store
    return Reconciler(
        store.database,
        source,
        term=lambda: store.term,
        timings=Timings(),
        clock=store.clock,
        exclusive=threading.Lock(),
    )


def turn(committer: Committer, loop: Reconciler, seconds: float) -> None:
    """Let the loop run for a while of turned time."""
    left = seconds
    while left > 0:
        pause = max(0.05, min(left, loop.step()))
        committer.store.clock.turn(pause)
        left -= pause


def passes_made(committer: Committer) -> list[PassState]:
    """How the passes ended, the oldest first."""
    return [each.state for each in committer.store.database.read(lambda tx: passes.listed(tx, limit=100))][::-1]
