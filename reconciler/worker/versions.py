"""The definitions behind claims, loaded once: a version never changes, and neither does a trigger's name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeVar

from reconciler.model.definition import Job, Trigger
from reconciler.model.run import Claim
from reconciler.store import definitions
from reconciler.store.database import Database

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST_KEPT: Final = 4000


class Versions:
    """What each claim is to run. A miss asks the store, and may so raise what it raises."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs: OrderedDict[tuple[int, int], Job] = OrderedDict()
        self._triggers: OrderedDict[int, str | None] = OrderedDict()

    def of(self, claim: Claim) -> tuple[Job, Trigger | None]:
        """Give the job version that the run is bound to, and its trigger in that version if it has one."""
        key = (claim.definition_id, claim.generation)
        job = _kept(self._jobs, key, lambda: self._load(*key))
        name = None
        if (trigger_id := claim.trigger_id) is not None:
            name = _kept(self._triggers, trigger_id, lambda: self._load_trigger_name(trigger_id))
        return job, next((trigger for trigger in job.triggers if trigger.name == name), None)

    def prefetch(self, claims: Sequence[Claim]) -> None:
        """Load what these claims need and is not known yet, all of it at once; what is missing is told by `of`."""
        jobs = {(each.definition_id, each.generation) for each in claims} - self._jobs.keys()
        triggers = {each.trigger_id for each in claims if each.trigger_id is not None} - self._triggers.keys()
        if len(jobs) + len(triggers) <= 1:
            return
        versions, names = self._database.read(
            lambda tx: (definitions.find_versions(tx, jobs), definitions.trigger_names(tx, triggers))
        )
        for key, job in versions.items():
            _keep(self._jobs, key, job)
        for trigger_id, name in names.items():
            _keep(self._triggers, trigger_id, name)

    def _load(self, definition_id: int, generation: int) -> Job:
        return self._database.read(lambda tx: definitions.load_version(tx, definition_id, generation))

    def _load_trigger_name(self, trigger_id: int) -> str | None:
        return self._database.read(lambda tx: definitions.trigger_name(tx, trigger_id))


def _kept(cache: OrderedDict[K, V], key: K, load: Callable[[], V]) -> V:
    if key not in cache:
        _keep(cache, key, load())
    cache.move_to_end(key)
    return cache[key]


def _keep(cache: OrderedDict[K, V], key: K, value: V) -> None:
    cache[key] = value
    if len(cache) > _MOST_KEPT:
        cache.popitem(last=False)
