"""Defaults: what a job takes where it says nothing itself, with the places of both.

Mappings are merged deep, lists are replaced. One level only: defaults name no others. What a job takes keeps its place
in the file of the defaults, so that a fault in it is told there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Final

from reconciler.spec.build import OWNERS, Candidate
from reconciler.spec.nodes import Fields, Items, Node, find, place_at, value_of
from reconciler.spec.wording import Words, nearest, one_of

EVERYBODY: Final = "default"
"""The defaults that a job takes when it names none."""
NOBODY: Final = "none"
_NAMED_AT_MOST: Final = 10
_NAMED: Final = ("spec", "defaults")
_TRIGGERS: Final = ("spec", "triggers")


def take_defaults(job: Candidate, known: Mapping[str, Candidate]) -> None:
    """Give a job what its defaults say; `known` are all that the tree holds, by name, broken ones too."""
    named = job.value(*_NAMED)
    if named == NOBODY or (named is not None and not isinstance(named, str)):
        return
    found = known.get(EVERYBODY if named is None else named)
    if found is not None and found.is_sound:
        _merge(job, found)
    elif found is not None:
        job.wait_for(found)
    elif named is not None:
        words = Words("defaults.unknown", f'there are no defaults called "{named}"', _instead(named, known))
        job.is_partial = True
        job.add(words, _NAMED, place_at(job.file, job.root, _NAMED))


def refuse_reserved_name(defaults: Candidate) -> None:
    """Refuse the name by which a job says that it takes none."""
    if defaults.name == NOBODY:
        path = ("metadata", "name")
        what = f'"{NOBODY}" is what a job writes that takes no defaults'
        words = Words("defaults.name", what, "Use another name")
        defaults.add(words, path, place_at(defaults.file, defaults.root, path))


def _instead(named: str, known: Collection[str]) -> str:
    """Say what a job may name in place of defaults that are not there."""
    names = sorted(set(known) - {NOBODY})
    near = NOBODY if named.casefold() == NOBODY else nearest(named, names)
    declare = f"declare them as an object of kind: Defaults with the name {named}"
    if near:
        return f'Did you mean "{near}"?'
    if names:
        return f"Write {one_of([*names[:_NAMED_AT_MOST], NOBODY])}; or {declare}"
    return f"No file of this source declares any: {declare}, or write {NOBODY}"


def _merge(job: Candidate, defaults: Candidate) -> None:
    of_job, of_trigger = (find(defaults.shared, ("spec", part)) for part in ("job", "trigger"))
    spec = find(job.root, ("spec",))
    if not isinstance(job.root, Fields) or not isinstance(spec, Fields):
        return
    if isinstance(of_job, Fields):
        spec = _merged(of_job, spec)
    triggers = find(job.root, _TRIGGERS)
    if isinstance(of_trigger, Fields) and isinstance(triggers, Items):
        items = [
            _merged(_fitting(of_trigger, each), each) if isinstance(each, Fields) else each for each in triggers.items
        ]
        spec = _with(spec, "triggers", dataclasses.replace(triggers, items=items))
    job.root = _with(job.root, "spec", spec)
    job.document = value_of(job.root)
    job.defaults = defaults.name or ""


def _merged(under: Fields, over: Fields) -> Fields:
    """Lay a job's mapping over that of its defaults."""
    pairs = dict(over.pairs)
    for name, (key, node) in under.pairs.items():
        mine = pairs.get(name)
        if mine is None:
            pairs[name] = (key, node)
        elif isinstance(node, Fields) and isinstance(mine[1], Fields):
            pairs[name] = (mine[0], _merged(node, mine[1]))
    return dataclasses.replace(over, pairs=pairs)


def _with(fields: Fields, name: str, node: Node) -> Fields:
    return dataclasses.replace(fields, pairs={**fields.pairs, name: (fields.pairs[name][0], node)})


def _fitting(of_trigger: Fields, trigger: Fields) -> Fields:
    """Leave out what does not belong to a trigger of its kind: an interval has no time zone."""
    pairs = {
        name: pair
        for name, pair in of_trigger.pairs.items()
        if name not in OWNERS or any(owner in trigger.pairs for owner in OWNERS[name])
    }
    return dataclasses.replace(of_trigger, pairs=pairs)
