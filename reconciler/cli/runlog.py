"""What a run printed, shown to people: line by line, while it runs or afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

import click

from reconciler.clock import SystemClock
from reconciler.model.log import OutputStream
from reconciler.store import queries
from reconciler.store.database import Database, Tx
from reconciler.store.logs import LogRow, lines_of

_FOLLOW_SECONDS: Final = 0.25
_LINES_AT_ONCE: Final = 1000


class RunLog:
    """The lines of one run, all or those of one attempt or stream."""

    def __init__(self, database: Database, run_id: int, *, attempt: int | None, stream: OutputStream | None) -> None:
        self._database = database
        self._run_id = run_id
        self._attempt = attempt
        self._stream = stream
        self._after = (0, -1)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been printed."""
        return self._after == (0, -1)

    def print(self, shown: Callable[[LogRow], str], *, follow: bool, with_headings: bool) -> queries.RunRow:
        """Print what is there or (`follow`) everything until the run is over; give the run as it was then.

        The run is read before its lines: once it is over, they are all there.
        """
        clock, never = SystemClock(), threading.Event()
        while True:
            row, lines = self._database.read(self._read)
            for fence, held in groupby(lines, key=lambda line: line.fence):
                of_hold = list(held)
                if with_headings and fence != self._after[0] and (row.fence > 1 or not self.is_empty):
                    click.echo(f"-- attempt {of_hold[0].attempt} (fence {fence}) on {of_hold[0].node}", err=True)
                click.echo("\n".join(map(shown, of_hold)))
                self._after = (fence, of_hold[-1].seq)
            if len(lines) < _LINES_AT_ONCE:
                if row.is_over or not follow:
                    return row
                clock.wait(never, _FOLLOW_SECONDS)

    def _read(self, tx: Tx) -> tuple[queries.RunRow, Sequence[LogRow]]:
        row = queries.run_shown(tx, self._run_id)
        lines = lines_of(
            tx, self._run_id, limit=_LINES_AT_ONCE, after=self._after, attempt=self._attempt, stream=self._stream
        )
        return row, lines
