"""What the schema cannot say: texts that mean something, names that must exist, and names used twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from reconciler.model.definition import DEFAULT_QUEUE, DEFAULT_TIME_ZONE, Json
from reconciler.model.kinds import Key, Queue
from reconciler.model.policy import DayRule
from reconciler.schedule import TimingError
from reconciler.schedule.cron import parse
from reconciler.schedule.occurrences import parse_at, parse_instant
from reconciler.schedule.zones import load_zone
from reconciler.spec.build import Candidate
from reconciler.spec.nodes import Path, Scalar, find, place_at, place_inside, place_of_key
from reconciler.spec.payload import check_payload, refuse_placeholders
from reconciler.spec.values import value_words
from reconciler.spec.wording import Words, did_you_mean

_TRIGGERS: Final = ("spec", "triggers")
_QUEUE: Final = ("spec", "queue")
_PARAMETERS: Final = ("spec", "parameters")
_NAME: Final = ("metadata", "name")


def check(made: Candidate, *, time_zone: str = DEFAULT_TIME_ZONE) -> None:
    """Add what is wrong with one definition beyond its shape, wherever its shape allows to look.

    `time_zone` is that of triggers which name none.
    """
    if not made.is_job:
        return
    for index, trigger in made.items(*_TRIGGERS):
        _check_timing(made, (*_TRIGGERS, index), trigger, time_zone)
    _check_trigger_names(made)
    _check_parameters(made)
    check_payload(made)


def check_names(candidates: Iterable[Candidate]) -> None:
    """Refuse a name that several definitions of a kind use: all of them, each naming another's place (G9)."""
    by_name: dict[Key, list[Candidate]] = defaultdict(list)
    for made in candidates:
        if made.name is not None and made.value("kind") == made.kind:
            by_name[made.kind, made.name].append(made)
    for (_, name), same in by_name.items():
        if len(same) > 1:
            places = [place_at(made.file, made.root, _NAME) for made in same]
            for at, made in enumerate(same):
                other = places[1] if at == 0 else places[0]
                words = Words("name.duplicate", f'the name "{name}" is used here and at {other}', "Rename one of them")
                made.add(words, _NAME, places[at])


def check_queues(candidates: Iterable[Candidate]) -> None:
    """Refuse a queue that the tree does not declare; hold back jobs whose queue is broken."""
    queues = {made.name: made for made in candidates if made.kind == Queue.kind and made.name is not None}
    for made in candidates:
        name = made.value(*_QUEUE) if made.is_job else None
        if not isinstance(name, str) or not made.is_clean(*_QUEUE):
            continue
        if name in queues:
            if not queues[name].is_sound:
                made.wait_for(queues[name])
        elif name != DEFAULT_QUEUE:
            declare = f"Declare it, as an object of kind: Queue with the name {name}, or write {DEFAULT_QUEUE}"
            mend = did_you_mean(name, [*queues, DEFAULT_QUEUE], otherwise=declare)
            words = Words("queue.unknown", f'there is no queue called "{name}"', mend)
            made.add(words, _QUEUE, place_at(made.file, made.root, _QUEUE))


def _check_timing(made: Candidate, path: Path, trigger: Mapping[str, Json], time_zone: str) -> None:
    """Read the texts that say when; each fault stands at its very characters."""
    zone = load_zone(time_zone)

    def read_zone(name: str) -> None:
        nonlocal zone
        zone = load_zone(name)

    def read_cron(text: str) -> None:
        day_rule = DayRule.AND if trigger.get("dayRule") == DayRule.AND else DayRule.OR
        parse(text, day_rule=day_rule, seed=made.name or "")

    readers: Mapping[str, Callable[[str], object]] = {
        "timeZone": read_zone,
        "cron": read_cron,
        "anchor": parse_instant,
        "notBefore": parse_instant,
        "notAfter": parse_instant,
        "at": lambda text: parse_at(text, zone),
    }
    for name, read in readers.items():
        if isinstance(text := trigger.get(name), str):
            try:
                read(text)
            except TimingError as error:
                add_timing_error(made, (*path, name), error)


def add_timing_error(made: Candidate, path: Path, error: TimingError) -> None:
    """Add what is wrong with a text that says when, at its very characters."""
    node = find(made.root, path)
    place = (
        place_inside(made.file, node, error.offset, error.length)
        if isinstance(node, Scalar)
        else place_at(made.file, made.root, path)
    )
    made.add(Words(error.rule, error.what, error.mend), path, place)


def _check_trigger_names(made: Candidate) -> None:
    triggers = made.items(*_TRIGGERS)
    seen: list[Json] = []
    for index, trigger in triggers:
        path, name = (*_TRIGGERS, index), trigger.get("name")
        if name is None and len(triggers) > 1:
            words = Words("trigger.name", "one of several triggers has no name", "Give each trigger a name")
            made.add(words, path, place_of_key(made.file, made.root, path))
        elif name is not None and name in seen:
            words = Words("trigger.name", f'two triggers are called "{name}"', "Rename one of them")
            made.add(words, (*path, "name"), place_at(made.file, made.root, (*path, "name")))
        seen.append(name)


def _check_parameters(made: Candidate) -> None:
    declared: dict[str, Mapping[str, Json]] = {}
    for index, item in made.items(*_PARAMETERS):
        path, name = (*_PARAMETERS, index), item.get("name")
        if not isinstance(name, str) or not made.is_clean(*path):
            return  # what is declared cannot be told, so neither what is wrong with its values
        if name in declared:
            words = Words("parameter.name", f'two parameters are called "{name}"', "Rename one of them")
            made.add(words, (*path, "name"), place_at(made.file, made.root, (*path, "name")))
        declared[name] = item
        if "default" in item:
            _check_value(made, (*path, "default"), item)
            refuse_placeholders(made, (*path, "default"), "a parameter's default")
    for index, trigger in made.items(*_TRIGGERS):
        _check_given(made, (*_TRIGGERS, index), trigger, declared)


def _check_given(
    made: Candidate, path: Path, trigger: Mapping[str, Json], declared: Mapping[str, Mapping[str, Json]]
) -> None:
    """Check what a trigger gives: known names, allowed values, and all that have no default."""
    given = trigger.get("parameters", {})
    if not isinstance(given, dict):
        return
    for name in given:
        here = (*path, "parameters", name)
        if name not in declared:
            mend = did_you_mean(name, declared, otherwise="Declare it under spec.parameters, or take it out")
            words = Words("parameter.unknown", f'the job has no parameter "{name}"', mend)
            made.add(words, here, place_of_key(made.file, made.root, here))
        else:
            _check_value(made, here, declared[name])
    refuse_placeholders(made, (*path, "parameters"), "a trigger's parameters")
    for name, item in declared.items():
        if "default" not in item and name not in given:
            what = f'the trigger gives no value for the parameter "{name}", which has no default'
            words = Words("parameter.missing", what, f"Give it here, or give {name} a default")
            made.add(words, path, place_of_key(made.file, made.root, path))


def _check_value(made: Candidate, path: Path, parameter: Mapping[str, Json]) -> None:
    for words in value_words(parameter.get("schema", {}), made.value(*path)):
        told = words._replace(rule="parameter.value", what=f'parameter "{parameter["name"]}": {words.what}')
        made.add(told, path, place_at(made.file, made.root, path))
