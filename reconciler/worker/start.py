"""How a claimed run begins: what the guard is asked to spawn, or how it ended already.

A run that cannot be prepared ends by itself and stops no other (X2); a store that fails meanwhile ends nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.errors import ReconcilerError, StoreUnavailableError
from reconciler.model.run import AttemptOutcome, Outcome
from reconciler.store.database import Database
from reconciler.worker.execute import Place, prepare
from reconciler.worker.handlers import IN_PROCESS
from reconciler.worker.options import WorkerOptions
from reconciler.worker.runs import Held, HeldRuns
from reconciler.worker.versions import Versions
from reconciler.worker.wire import Spawn


@dataclass(frozen=True, slots=True)
class Started:
    """What the guard is asked, with the descriptors that go along."""

    spawn: Spawn
    descriptors: Sequence[int]


class Starter:
    """Begins runs of one worker."""

    def __init__(self, options: WorkerOptions, database: Database, held: HeldRuns) -> None:
        self._options = options
        self._held = held
        self._versions = Versions(database)
        self._programs = options.programs()

    def prefetch(self, waiting: Sequence[Held]) -> None:
        """Load what runs are to do, for all of them at once. Raises StoreUnavailableError."""
        self._versions.prefetch([each.claim for each in waiting])

    def start(self, held: Held) -> Started | Outcome:
        """Begin a run. Raises StoreUnavailableError: then it has not begun, and may be begun later."""
        try:
            return self._begun(held)
        except StoreUnavailableError:
            raise
        except ReconcilerError as refusal:
            refused = self._held.release(held, AttemptOutcome.FAILED, error=str(refusal))
            return dataclasses.replace(refused, is_permanent=True)
        except Exception as fault:  # noqa: BLE001 - a malformed row, a full disk, a fault of ours: this run fails, no other
            error = f"the run could not be prepared ({type(fault).__name__}: {fault})"
            return self._held.release(held, AttemptOutcome.FAILED, error=error)

    def _begun(self, held: Held) -> Started | Outcome:
        job, trigger = self._versions.of(held.claim)
        held.definition = job.name
        if held.claim.handler in IN_PROCESS:
            return self._held.release(held, AttemptOutcome.SUCCEEDED)
        place = Place(self._programs, self._options.data, self._held.make_folder(held))
        prepared = prepare(held.claim, job, trigger, place, epoch=held.session.epoch)
        return Started(prepared.spawn, self._held.start(held, prepared))
