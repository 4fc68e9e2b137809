"""The deletion guard: a commit never silently deletes a live schedule (G5).

Three answers. *Withheld*: something in the tree is broken, so what is missing may only be unreadable or half renamed;
nothing is pruned, the rest applies. *Held*: too much would go at once, or everything; the whole revision waits for an
approval of exactly this set. *Allowed*: the prunes are small enough, or approved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.model.definition import digest_of
from reconciler.words import count

_PERCENT: Final = 100
_MINUTE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class DeletionRule:
    """How many deletions pass without a question: one, or a share of the managed set, over a rolling window."""

    percent: int = 20
    window_seconds: float = 600.0

    def most(self, managed: int) -> int:
        """Give how many of a managed set may go."""
        return max(1, managed * self.percent // _PERCENT)


DEFAULT_RULE: Final = DeletionRule()


@dataclass(frozen=True, slots=True)
class Allowed:
    """Prune what is no longer declared."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """Prune nothing, apply the rest."""

    reason: str


@dataclass(frozen=True, slots=True)
class Held:
    """Apply nothing until this exact set of deletions is approved."""

    reason: str
    digest: str


Ruling = Allowed | Withheld | Held


def judge(  # noqa: PLR0913 - the facts of one ruling, each named at the call
    deleted: Sequence[str],
    *,
    managed: int,
    recent: int,
    is_empty: bool,
    errors: int,
    is_complete: bool,
    approved: Collection[str],
    rule: DeletionRule = DEFAULT_RULE,
) -> Ruling:
    """Rule over the uids a tree no longer declares.

    `managed` counts the source's live definitions, `recent` what was pruned from it within the window; `errors` counts
    the problems of the tree, and `is_complete` says that every file could be read and enumerated.
    """
    if not deleted:
        return Allowed()
    if errors or not is_complete:
        return Withheld(
            f"{_definitions(len(deleted))} no longer declared, but the files have errors: nothing is pruned before "
            f"they are mended"
        )
    digest = deletion_digest(deleted)
    if digest in approved:
        return Allowed()
    if is_empty:
        return Held(
            f"the source declares nothing any more: {_definitions(len(deleted))} would be deleted, all it declared",
            digest,
        )
    most = rule.most(managed + recent)
    if len(deleted) + recent > most:
        earlier = f" after {recent:,} within {_duration(rule.window_seconds)}" if recent else ""
        return Held(
            f"{_definitions(len(deleted))} would be deleted{earlier}; without an approval at most {most} of "
            f"{managed + recent} may be",
            digest,
        )
    return Allowed()


def deletion_digest(uids: Sequence[str]) -> str:
    """Name a set of deletions; an approval is bound to it."""
    return digest_of(["delete", *sorted(uids)])[:16]


def _definitions(number: int) -> str:
    return count(number, "definition")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), _MINUTE_SECONDS)
    return count(round(seconds), "second") if rest else count(minutes, "minute")
