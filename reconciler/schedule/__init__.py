"""When a definition runs: cron, zones, occurrences, misfires. Pure functions of values; no clock, no store."""

from __future__ import annotations

from reconciler.errors import ReconcilerError


class TimingError(ReconcilerError):
    """A text that says when something runs makes no sense; `offset` and `length` point into that text."""

    def __init__(self, rule: str, what: str, mend: str, *, offset: int = 0, length: int = 1) -> None:
        super().__init__(f"{what}. {mend}" + ("" if mend.endswith("?") else "."))
        self.rule = rule
        self.what = what
        self.mend = mend
        self.offset = offset
        self.length = max(1, length)
