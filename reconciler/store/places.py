"""Places: how many runs of a queue, and of all queues together, are held at once at most (C1).

Laws: who gives a place to a run has locked its row, and seen in a later snapshot that no live run names it; a unique
index forbids the rest. Nothing is given back: the place is free when no live run names it. Fewer places than runs end
no run: the ones that are too many hold closed places, and each keeps an open one empty until it ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    FromClause,
    Select,
    and_,
    bindparam,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    true,
    update,
)

from reconciler.model.definition import AGING_PER_LEVEL_US
from reconciler.model.lease import Term
from reconciler.model.run import HELD
from reconciler.store.database import Tx, in_states
from reconciler.store.dialect import Columns
from reconciler.store.leader import guard
from reconciler.store.queue_tables import ALL_QUEUES, places, queues
from reconciler.store.tables import requirements, runs

_QUEUE: Final[Columns] = {"queue": str}
_ID: Final[Columns] = {"id": int}
_ADOPTED_AT_ONCE: Final = 1000
_HOLDERS: Final = (runs.c.queue_place_id, runs.c.global_place_id)
_IS_CLOSED: Final = text("NOT places.is_open")
"""As the index says it: SQLite uses a partial index only for the very words in its WHERE."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What stops a queue from being claimed without end; `overhang` counts its runs in closed places."""

    queue: str
    max_running: int | None
    suspended: bool
    overhang: int


def columns() -> list[ColumnElement[Any]]:
    """Give the columns of a `Limit`, to be asked for beside something else; see `is_limited`."""
    in_closed = [
        select(func.count())
        .select_from(places.join(runs, holder == places.c.id))
        .where(places.c.queue == queues.c.name, _IS_CLOSED)
        .correlate(queues)
        .scalar_subquery()
        for holder in _HOLDERS
    ]
    return [
        queues.c.name.label("queue"),
        queues.c.max_running,
        queues.c.suspended,
        (in_closed[0] + in_closed[1]).label("overhang"),
    ]


def is_limited() -> ColumnElement[bool]:
    """Tell of a row of `queues` whether it limits anything."""
    return or_(queues.c.max_running.is_not(None), queues.c.suspended)


def free(tx: Tx, limits: Sequence[Limit], most: int) -> dict[str, list[int]]:
    """Lock up to `most` free places of each capped queue, and give them: they are the caller's to fill until it ends.

    Places that others are about to fill are passed over.
    """
    capped = [each for each in limits if each.max_running is not None and not each.suspended]
    if not capped:
        return {}
    asked = tx.pack("capped", _QUEUE, [(each.queue,) for each in capped])
    locked = tx.run(_lock_free, **asked, most=most + max(each.overhang for each in capped)).scalars().all()
    # What was free when that statement began may be taken by one that ended before the lock was granted: look again.
    found: dict[str, list[int]] = defaultdict(list)
    for row in tx.run(_still_free, **tx.pack("locked", _ID, [(place_id,) for place_id in sorted(locked)])):
        found[row.queue].append(row.id)
    return {each.queue: found[each.queue][: max(0, len(found[each.queue]) - each.overhang)] for each in capped}


def set_cap(tx: Tx, term: Term, most: int | None) -> None:
    """Say how many runs may be held at once over all queues; None for any number. It costs nothing when it is so."""
    guard(tx, term)
    known = tx.execute(select(queues.c.max_running).where(queues.c.name == ALL_QUEUES)).first()
    if most == (None if known is None else known.max_running):
        return
    if known is None:
        tx.execute(
            insert(queues).values(name=ALL_QUEUES, max_running=most, aging_us=AGING_PER_LEVEL_US, suspended=False)
        )
    else:
        tx.execute(update(queues).where(queues.c.name == ALL_QUEUES).values(max_running=most))
    resize(tx, {ALL_QUEUES: most})
    adopt(tx)


def resize(tx: Tx, caps: Mapping[str, int | None]) -> None:
    """Open or close places, by queue; None closes all, since nobody asks for them. The caller has proved its term."""
    given = tx.rows("given", {"queue": str, "most": int}, [(name, caps[name] or 0) for name in sorted(caps)])
    should_be = places.c.number <= given.c.most
    tx.execute(
        update(places).where(places.c.queue == given.c.queue, places.c.is_open != should_be).values(is_open=should_be)
    )
    wanted = [(name, number) for name, most in sorted(caps.items()) for number in range(1, (most or 0) + 1)]
    made = tx.rows("made", {"queue": str, "number": int}, wanted)
    fresh = select(made.c.queue, made.c.number, literal(value=True)).where(true())
    tx.execute(tx.insert_new(places, ["queue", "number", "is_open"], fresh))


def adopt(tx: Tx) -> int:
    """Give places to held runs that have none since their cap is newer than their claim; give how many there were.

    The caller has proved its term. The reaper does this too: a claim may be under way while a cap begins.
    """
    if tx.execute(select(queues.c.name).where(queues.c.max_running.is_not(None)).limit(1)).first() is None:
        return 0
    return _adopt(tx, runs.c.queue_place_id, requirements.c.queue) + _adopt(
        tx, runs.c.global_place_id, literal(ALL_QUEUES)
    )


def _adopt(tx: Tx, place: Column[Any], queue: ColumnElement[str]) -> int:
    homeless = (
        select(runs.c.id, queue.label("queue"))
        .join(requirements, requirements.c.id == runs.c.requirement_id)
        .join(queues, queues.c.name == queue)
        .where(in_states(runs.c.state, HELD), place.is_(None), queues.c.max_running.is_not(None))
        .order_by(runs.c.node_id, runs.c.id)  # by id alone PostgreSQL walks over the whole table to find a few
        .limit(_ADOPTED_AT_ONCE)
    )
    found: dict[str, list[int]] = defaultdict(list)
    for row in tx.execute(tx.for_change(homeless, of=runs)):
        found[row.queue].append(row.id)
    if not found:
        return 0
    given = []
    for name, run_ids in sorted(found.items()):
        limit = Limit(name, len(run_ids), suspended=False, overhang=0)
        open_places = free(tx, [limit], len(run_ids))[name]
        given += list(zip(run_ids, [*open_places, *_closed(tx, name, len(run_ids) - len(open_places))], strict=True))
    taken = tx.rows("given", {"id": int, "place": int}, sorted(given))
    tx.execute(update(runs).where(runs.c.id == taken.c.id).values({place: taken.c.place}))
    return len(given)


def _closed(tx: Tx, queue: str, number: int) -> list[int]:
    """Make closed places, beyond all others of the queue."""
    if number == 0:
        return []
    last = tx.execute(select(func.max(places.c.number)).where(places.c.queue == queue)).scalar_one() or 0
    made = tx.rows("made", {"number": int}, [(last + each,) for each in range(1, number + 1)])
    fresh = select(literal(queue), made.c.number, literal(value=False))
    added = insert(places).from_select(["queue", "number", "is_open"], fresh)
    return list(tx.execute(added.returning(places.c.id)).scalars())


def _lock_free(tx: Tx) -> Select[Any]:
    capped = tx.rows("capped", _QUEUE)

    def first(place: FromClause) -> Select[Any]:
        return (
            select(place)
            .where(place.c.queue == capped.c.queue, place.c.is_open, _is_free(place))
            .order_by(place.c.number)
            .limit(bindparam("most", type_=BigInteger()))
        )

    joined, found = tx.dialect.first_of_each(capped, places, first, lock=True)
    return select(found.c.id).select_from(joined)


def _still_free(tx: Tx) -> Select[Any]:
    locked = tx.rows("locked", _ID)
    query = select(places.c.id, places.c.queue).join(locked, locked.c.id == places.c.id)
    return query.where(places.c.is_open, _is_free(places)).order_by(places.c.queue, places.c.number)


def _is_free(place: FromClause) -> ColumnElement[bool]:
    """Tell whether no live run names a place; ids are unique, whichever of the two columns they stand in."""
    return and_(*(~select(runs.c.id).where(holder == place.c.id).correlate(place).exists() for holder in _HOLDERS))
