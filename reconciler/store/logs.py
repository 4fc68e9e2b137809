"""The lines that jobs print: appended by the node that runs the job, read by anybody.

Law: a line is stored only under the session and the fence that hold its run, while the run is started; what comes under
another fence, or after the end, changes nothing (I3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, Insert, Select, bindparam, select, true, tuple_

from reconciler.model.lease import Session
from reconciler.model.log import LogLine, OutputStream
from reconciler.model.run import RunState, sources_of
from reconciler.store.database import Tx, in_states
from reconciler.store.dialect import Columns
from reconciler.store.nodes import prove
from reconciler.store.tables import nodes, run_logs, runs

_STARTED: Final = tuple(sources_of(RunState.SUCCEEDED))
_HOLD: Final[Columns] = {"run_id": int, "fence": int}
_LINE: Final[Columns] = {**_HOLD, "seq": int, "attempt": int, "stream": str, "at_us": int, "text": str}

Hold = tuple[int, int]
"""A run and the fence it is held under."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """A stored line; a reader goes on after its `fence` and `seq`."""

    fence: int
    seq: int
    attempt: int
    node: str | None
    stream: OutputStream
    at_us: int
    text: str


def append(tx: Tx, session: Session, lines: Sequence[LogLine]) -> set[Hold]:
    """Store lines of running jobs, and give the holds whose lines were accepted; the others were fenced out.

    May be repeated when the answer was lost: a line stands in the store once. Raises SessionLostError when the
    session's lease is over: then nothing was accepted.
    """
    prove(tx, session)
    wanted = sorted({(line.run_id, line.fence) for line in lines})
    held = tx.run(_started, node_id=session.node_id, **tx.pack("wanted", _HOLD, wanted))
    attempts = {(row.id, row.fence): row.attempt for row in held}
    keep(tx, session, lines, attempts)
    return set(attempts)


def keep(tx: Tx, session: Session, lines: Sequence[LogLine], attempts: Mapping[Hold, int]) -> None:
    """Store those of the lines that belong to one of these holds, whose runs the caller has locked."""
    rows = [
        (line.run_id, line.fence, line.seq, attempt, line.stream, line.at_us, line.text)
        for line in lines
        if (attempt := attempts.get((line.run_id, line.fence))) is not None
    ]
    if rows:
        tx.run(_insert, node_id=session.node_id, **tx.pack("lines", _LINE, rows))


def lines_of(
    tx: Tx,
    run_id: int,
    *,
    limit: int,
    after: tuple[int, int] = (0, -1),
    attempt: int | None = None,
    stream: OutputStream | None = None,
) -> list[LogRow]:
    """Give the next lines of a run after a fence and seq, in order of attempt and reading."""
    query = (
        select(run_logs, nodes.c.name.label("node"))
        .outerjoin(nodes, nodes.c.id == run_logs.c.node_id)
        .where(run_logs.c.run_id == run_id, tuple_(run_logs.c.fence, run_logs.c.seq) > tuple_(*after))
        .order_by(run_logs.c.fence, run_logs.c.seq)
        .limit(limit)
    )
    if attempt is not None:
        query = query.where(run_logs.c.attempt == attempt)
    if stream is not None:
        query = query.where(run_logs.c.stream == stream)
    return [
        LogRow(row.fence, row.seq, row.attempt, row.node, OutputStream(row.stream), row.at_us, row.text)
        for row in tx.execute(query)
    ]


def _started(tx: Tx) -> Select[Any]:
    """Find the holds that this session still has, and keep their end waiting until the lines are in."""
    wanted = tx.rows("wanted", _HOLD)
    return tx.share_key(
        select(runs.c.id, runs.c.fence, runs.c.attempt)
        .join(wanted, (runs.c.id == wanted.c.run_id) & (runs.c.fence == wanted.c.fence))
        .where(runs.c.node_id == bindparam("node_id", type_=BigInteger()), in_states(runs.c.state, _STARTED))
        .order_by(runs.c.id)
    )


def _insert(tx: Tx) -> Insert:
    lines = tx.rows("lines", _LINE)
    columns = [*_LINE, "node_id"]
    mine = bindparam("node_id", type_=BigInteger())
    return tx.insert_new(run_logs, columns, select(*(lines.c[name] for name in _LINE), mine).where(true()))
