"""What monitoring asks of the store: how much waits, runs, is declared and is wrong, in a few statements.

Law: nothing here walks over history. Live runs are counted; everything else is found by key or index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, select

from reconciler.model.run import RunState
from reconciler.store import leader, overview, pauses
from reconciler.store.database import Tx
from reconciler.store.depths import Depths
from reconciler.store.passes import OVER
from reconciler.store.queue_tables import queues
from reconciler.store.tables import definitions, nodes, passes, requirements, run_history, sources
from reconciler.store.trigger_tables import triggers


@dataclass(frozen=True, slots=True)
class DefinitionGauge:
    """One definition as monitoring sees it."""

    name: str
    kind: str
    source: str
    queue: str
    next_fire_us: int | None
    last_success_us: int | None


@dataclass(frozen=True, slots=True)
class SourceGauge:
    """A source: what is applied, and what its last pass found."""

    name: str
    revision: str
    errors: int
    held: int


@dataclass(frozen=True, slots=True)
class Gauges:
    """Everything at one instant of the store's clock."""

    now_us: int
    leadership: leader.Leadership
    depths: Depths
    caps: Mapping[str, int]
    """How many runs of each capped queue may be held at once; `*` stands for all of them together."""
    kinds: Mapping[tuple[str, str], int]
    """Number of definitions by kind and state: Active, Suspended, Degraded."""
    definitions: Sequence[DefinitionGauge]
    is_truncated: bool
    sources: Sequence[SourceGauge]
    dead_letters: int
    workers: Mapping[str, int]
    slots: int
    busy: int
    vitals: Mapping[str, float]


def measure(tx: Tx, *, most_definitions: int) -> Gauges:
    """Measure everything; of definitions the first `most_definitions` by name are given one by one."""
    listed = _definitions(tx, most_definitions + 1)
    workers, slots = _workers(tx)
    depths = Depths(tx)
    return Gauges(
        now_us=tx.now_us(),
        leadership=leader.current(tx),
        depths=depths,
        caps=_caps(tx),
        kinds=overview.definition_counts(tx),
        definitions=listed[:most_definitions],
        is_truncated=len(listed) > most_definitions,
        sources=_sources(tx),
        dead_letters=overview.dead_letter_count(tx),
        workers=workers,
        slots=slots,
        busy=depths.held,
        vitals=tx.dialect.vitals(tx.connection),
    )


def _caps(tx: Tx) -> dict[str, int]:
    query = select(queues.c.name, queues.c.max_running).where(queues.c.max_running.is_not(None))
    return {row.name: row.max_running for row in tx.execute(query)}


def _definitions(tx: Tx, most: int) -> list[DefinitionGauge]:
    next_fire = select(func.min(triggers.c.next_fire_us)).where(
        triggers.c.definition_id == definitions.c.id,
        ~definitions.c.suspended,
        ~triggers.c.suspended,
        ~pauses.is_paused(definitions.c.name, tx.now_us()),
    )
    last_success = select(func.max(run_history.c.finished_us)).where(
        run_history.c.definition_id == definitions.c.id, run_history.c.state == RunState.SUCCEEDED
    )
    query = (
        select(
            definitions.c.name,
            definitions.c.kind,
            definitions.c.source,
            requirements.c.queue,
            next_fire.scalar_subquery().label("next_fire_us"),
            last_success.scalar_subquery().label("last_success_us"),
        )
        .select_from(definitions)
        .join(requirements, requirements.c.id == definitions.c.requirement_id)
        .where(definitions.c.deleted_us.is_(None))
        .order_by(definitions.c.kind, definitions.c.name)
        .limit(most)
    )
    return [DefinitionGauge(**row) for row in tx.execute(query).mappings()]


def _sources(tx: Tx) -> list[SourceGauge]:
    ended = passes.alias()
    last = (
        select(func.max(ended.c.id))
        .where(ended.c.source == sources.c.name, ended.c.state.in_(OVER))
        .correlate(sources)
        .scalar_subquery()
    )
    query = (
        select(sources.c.name, sources.c.revision, passes.c.report)
        .select_from(sources)
        .outerjoin(passes, passes.c.id == last)
    )
    return [_source(row) for row in tx.execute(query.order_by(sources.c.name))]


def _source(row: Any) -> SourceGauge:
    report = json.loads(row.report) if row.report else {}
    return SourceGauge(row.name, row.revision, report.get("problemCount", 0), len(report.get("held", ())))


def _workers(tx: Tx) -> tuple[dict[str, int], int]:
    """Count living sessions by state, and the places of those that claim."""
    is_alive = and_(nodes.c.state != "Dead", nodes.c.lease_until_us > tx.lease_now)
    query = (
        select(nodes.c.state, func.count().label("number"), func.sum(nodes.c.slots).label("slots"))
        .where(is_alive)
        .group_by(nodes.c.state)
    )
    found = tx.execute(query).all()
    active = sum(int(row.slots) for row in found if row.state == "Active")
    return {row.state: row.number for row in found}, active
