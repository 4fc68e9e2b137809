"""Faults planted in the protocol, to show that the simulation would see them; each lives inside its `with` block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from sqlalchemy import Select, select, update

from reconciler.model.lease import Term
from reconciler.store import claiming, claims, nodes, slots
from reconciler.store.database import Tx
from reconciler.store.leader import guard
from reconciler.store.tables import nodes as nodes_table
from reconciler.store.tables import runs


@contextmanager
def no_fence_on_finish() -> Iterator[None]:
    """A report is accepted for whoever holds the run now, whatever fence and session it carries."""

    def lock_any(tx: Tx) -> Select[Any]:
        reported = tx.rows("reported", {"run_id": int, "fence": int})
        return (
            select(*(column for column in runs.c if column.name != "fence"), reported.c.fence)
            .join(reported, runs.c.id == reported.c.run_id)
            .where(runs.c.state == "Running")
        )

    with _replaced(claims, "_lock_held", lock_any):
        yield


@contextmanager
def reap_ignores_expiry() -> Iterator[None]:
    """Every session is declared dead at each turn of the reaper."""

    def bury_all(tx: Tx, term: Term, *, limit: int) -> list[str]:
        guard(tx, term)
        buried = update(nodes_table).where(nodes_table.c.state != "Dead").values(state="Dead", epoch=-nodes_table.c.id)
        return list(tx.execute(buried.returning(nodes_table.c.name)).scalars())

    with _replaced(nodes, "bury_expired", bury_all):
        yield


@contextmanager
def cursor_moved_in_another_transaction() -> Iterator[None]:
    """The move of the cursors commits before the rows of their slots are written."""
    move = slots._move_cursors  # noqa: SLF001 - a mutant is made of internals

    def move_and_commit(tx: Tx, steps: Sequence[Any], now_us: int) -> set[int]:
        won = move(tx, steps, now_us)
        tx.connection.exec_driver_sql("COMMIT")
        tx.connection.exec_driver_sql("BEGIN IMMEDIATE")
        return won

    with _replaced(slots, "_move_cursors", move_and_commit):
        yield


@contextmanager
def caps_are_not_looked_at() -> Iterator[None]:
    """A claim takes what it finds, however full its queue is."""

    def claim_all(tx: Tx, _limits: object, most: int, admitted: Mapping[str, Any], **facts: Any) -> Sequence[Any]:
        whole = claiming._claim_from_any_queue  # noqa: SLF001 - a mutant is made of internals
        return tx.run(whole, node_id=facts["node_id"], most=most, **admitted).all()

    with _replaced(claiming, "_claim_within", claim_all):
        yield


MUTANTS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "no-fence-on-finish": no_fence_on_finish,
    "reap-ignores-expiry": reap_ignores_expiry,
    "caps-are-not-looked-at": caps_are_not_looked_at,
    "cursor-moved-in-another-transaction": cursor_moved_in_another_transaction,
}


@contextmanager
def _replaced(module: Any, name: str, by: Any) -> Iterator[None]:
    kept = getattr(module, name)
    setattr(module, name, by)
    try:
        yield
    finally:
        setattr(module, name, kept)
