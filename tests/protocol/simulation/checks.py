"""The judge: goes once through what the witness saw, in the order of the commits, and has each checker look."""

from __future__ import annotations

import itertools
from typing import Final

from tests.protocol.simulation.check_claims import Claims
from tests.protocol.simulation.check_leader import Lead
from tests.protocol.simulation.check_life import Life
from tests.protocol.simulation.check_places import Places
from tests.protocol.simulation.check_slots import Slots
from tests.protocol.simulation.evidence import Checker, Evidence

_CHECKERS: Final = (Claims, Lead, Slots, Life, Places)


def judge(evidence: Evidence) -> list[str]:
    """List every violation, with every error that should not have been met."""
    checkers: list[Checker] = [make(evidence) for make in _CHECKERS]
    transactions = evidence.world.transactions
    for number, changes in itertools.groupby(evidence.changes, key=lambda change: change.transaction):
        by = transactions[number]
        for change in changes:
            for checker in checkers:
                if change.table in checker.tables:
                    checker.see(change, by)
        for checker in checkers:
            checker.committed(by)
    for checker in checkers:
        checker.end()
    found = itertools.chain.from_iterable(checker.found for checker in checkers)
    return [*evidence.errors, *found]
