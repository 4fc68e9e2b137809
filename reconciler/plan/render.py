"""A plan for people (text) and for programs (versioned JSON), and the exit code it means.

Law G10: this prints exactly what an apply then does. The same plan at the same `now` gives the same bytes: nothing here
reads a clock, and everything is sorted by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.clock import SECOND_US, iso
from reconciler.model.definition import Job, Json, job_from
from reconciler.model.kinds import Calendar, label
from reconciler.model.tree import Definition
from reconciler.plan import effects
from reconciler.plan.closures import Closures, closures, key_of, reached
from reconciler.plan.diff import Broken, Change, Create, Delete, FieldChange, Plan, Stored, Unchanged, Update
from reconciler.plan.guard import Allowed, Held, Withheld

FORMAT_VERSION: Final = "1.0"
DEFAULT_HORIZON_US: Final = 14 * 24 * 3600 * SECOND_US
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class About:
    """What was compared with what, and when: `level` is `nothing`, `directory`, `revision` or `store`."""

    source: str
    tree: str
    level: str
    against: str
    now_us: int
    apply_command: str
    """The command that applies a plan of this tree; the digest is added to it."""
    horizon_us: int = DEFAULT_HORIZON_US
    """Up to how long after `now_us` fire times are compared."""

    @property
    def until_us(self) -> int:
        """Up to which instant fire times are compared."""
        return self.now_us + self.horizon_us


@dataclass(frozen=True, slots=True)
class _View:
    """What is shown: a plan, what it compares, and the calendars on both sides of it."""

    plan: Plan
    about: About
    closures: Closures

    def after(self, definition: Definition | None) -> effects.Side:
        declared = definition.declared if definition else None
        return effects.Side(declared if isinstance(declared, Job) else None, self.closures.after)

    def before(self, stored: Stored | None) -> effects.Side:
        is_job = stored is not None and stored.kind == Job.kind
        return effects.Side(job_from(stored.document) if stored and is_job else None, self.closures.before)

    def fires(self, definition: Definition | None, stored: Stored | None) -> effects.Fires:
        return effects.fires(self.after(definition), self.before(stored), self.about.now_us, self.about.horizon_us)


def as_text(plan: Plan, about: About) -> str:
    """Show what applying would do, the guard's word, counts, digest, and the command that applies exactly this."""
    view = _View(plan, about, closures(plan))
    lines = [f'plan of source "{about.source}": {about.tree} against {_level(about)}', f"now: {iso(about.now_us)}", ""]
    width = max((len(label(key_of(change))) for change in plan.changes), default=0)
    for change in plan.changes:
        lines += _change_lines(view, change, width)
    lines += [""] if plan.changes else []
    if not isinstance(plan.ruling, Allowed):
        lines += [f"! {_ruling_words(plan, about)}", ""]
    lines += [_counts_line(plan), f"plan digest: {plan.digest}", _next_step(plan, about)]
    return "\n".join(lines)


def as_json(plan: Plan, about: About, *, problems: Sequence[Json] = ()) -> str:
    """Give the plan as JSON; `problems` are shown as they come, already plain values."""
    view = _View(plan, about, closures(plan))
    document = {
        "formatVersion": FORMAT_VERSION,
        "source": about.source,
        "tree": about.tree,
        "level": about.level,
        "against": about.against,
        "now": iso(about.now_us),
        "digest": plan.digest,
        "ruling": _ruling_facts(plan),
        "counts": _counts(plan),
        "changes": [_change_facts(view, change) for change in plan.changes],
        "problems": list(problems),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def exit_code(plan: Plan, *, errors: int, warnings: int, strict: bool = False, detailed: bool = False) -> int:
    """Give the exit code of a dry run: 3 held, 1 invalid, 2 changes (when asked for), 0 (interface.md)."""
    if plan.is_held:
        return 3
    if errors or (strict and warnings):
        return 1
    return 2 if detailed and plan.has_changes else 0


def _level(about: About) -> str:
    match about.level:
        case "nothing":
            return "nothing (no store: everything counts as new)"
        case _:
            return f"{about.level} {about.against}"


def _change_lines(view: _View, change: Change, width: int) -> Iterator[str]:
    sign, word = _sign(view.plan, change)
    yield f"{sign} {word:<9}  {label(key_of(change)):<{width}}  {_detail(view.plan, change)}".rstrip()
    match change:
        case Create(definition):
            yield from _effect_lines(view, definition, None)
        case Update(definition, stored, fields):
            for field in fields:
                line = f"  (line {field.line})" if field.line else ""
                origin = f"  (from {field.inherited})" if field.inherited else line
                yield f"      {field.path}: {_shown(field, 'before')} -> {_shown(field, 'after')}{origin}"
            yield from _effect_lines(view, definition, stored)
        case Delete(stored) if isinstance(view.plan.ruling, Allowed):
            yield from effects.fires_lines(view.fires(None, stored), view.about.until_us)
        case Delete() | Unchanged() | Broken():
            return


def _effect_lines(view: _View, definition: Definition, stored: Stored | None) -> Iterator[str]:
    """Say what a change does to fire times: of the job itself, or of the jobs that mind the calendar."""
    match definition.declared:
        case Job():
            yield from effects.trigger_lines(view.after(definition), view.before(stored), view.about.now_us)
            yield from effects.fires_lines(view.fires(definition, stored), view.about.until_us)
        case Calendar(name=name):
            for each in reached(view.plan, name):
                found = effects.fires_lines(view.fires(each.definition, each.stored), view.about.until_us)
                yield from (f"      {each.definition.declared.name}: {line.lstrip()}" for line in found)
        case _:
            return


def _sign(plan: Plan, change: Change) -> tuple[str, str]:
    match change:
        case Create():
            return "+", "create"
        case Update():
            return "~", "update"
        case Delete():
            return ("-", "delete") if isinstance(plan.ruling, Allowed) else ("!", "held")
        case Unchanged():
            return "=", "unchanged"
        case Broken():
            return "x", "invalid"


def _detail(plan: Plan, change: Change) -> str:
    match change:
        case Create(definition):
            return f"{definition.place.file}:{definition.place.line}"
        case Update(definition, stored, _):
            generations = f"generation {stored.generation} to {stored.generation + 1}"
            return f"{definition.place.file}:{definition.place.line}  {generations}"
        case Delete(stored):
            kept = "" if isinstance(plan.ruling, Allowed) else "; not deleted now, see below"
            return f"was {stored.file}:{stored.line}{kept}"
        case Unchanged(definition, stored) if change.has_moved:
            moved = f"moved from {stored.file}:{stored.line}"
            return f"{definition.place.file}:{definition.place.line}  {moved}"
        case Unchanged(definition, _):
            return f"{definition.place.file}:{definition.place.line}"
        case Broken(_, place, stored):
            goes_on = f"generation {stored.generation} goes on" if stored else "nothing is stored yet"
            return f"{place.file}:{place.line}  {goes_on}"


def _shown(field: FieldChange, side: str) -> str:
    value = field.before if side == "before" else field.after
    if value is None:
        return "(none)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _ruling_words(plan: Plan, about: About) -> str:
    match plan.ruling:
        case Held(reason, digest):
            return f"held: {reason}\n  nothing of this revision applies until {_approval(about, digest)}"
        case Withheld(reason):
            return f"deletions withheld: {reason}"
        case Allowed():
            return ""


def _approval(about: About, digest: str) -> str:
    """Say how to release held deletions; only a plan against the store knows which definitions these are."""
    return f"`reconciler approve {digest}`" if about.level == "store" else "they are approved, once a leader holds them"


def _ruling_facts(plan: Plan) -> dict[str, Json]:
    match plan.ruling:
        case Held(reason, digest):
            return {"result": "Held", "reason": reason, "approve": digest}
        case Withheld(reason):
            return {"result": "Withheld", "reason": reason}
        case Allowed():
            return {"result": "Allowed"}


def _counts(plan: Plan) -> dict[str, int]:
    return {
        "create": len(plan.creates),
        "update": len(plan.updates),
        "delete": len(plan.prunes),
        "held": len(plan.deletes) - len(plan.prunes),
        "unchanged": sum(isinstance(change, Unchanged) for change in plan.changes),
        "invalid": sum(isinstance(change, Broken) for change in plan.changes),
    }


def _counts_line(plan: Plan) -> str:
    counts = _counts(plan)
    to_do = [f"{counts[word]} to {word}" for word in ("create", "update", "delete")]
    return ", ".join([*to_do, *(f"{counts[word]} {word}" for word in ("held", "unchanged", "invalid") if counts[word])])


def _next_step(plan: Plan, about: About) -> str:
    if plan.is_held:
        return "applying it is refused for now (exit 3)"
    if not plan.creates and not plan.updates and not plan.prunes:
        return "nothing to apply"
    return f"to apply exactly this: {about.apply_command} --expect-digest {plan.digest}"


def _change_facts(view: _View, change: Change) -> dict[str, Json]:
    kind, name = key_of(change)
    facts: dict[str, Json] = {"action": _sign(view.plan, change)[1], "kind": kind, "name": name}
    match change:
        case Create(definition):
            facts |= {"file": definition.place.file, "line": definition.place.line, "generation": 1}
            facts |= _effect_facts(view, definition, None)
        case Update(definition, stored, fields):
            facts |= {"file": definition.place.file, "line": definition.place.line, **_stored_facts(stored)}
            facts["generation"] = stored.generation + 1
            facts["fields"] = [
                {
                    "path": field.path,
                    "before": field.before,
                    "after": field.after,
                    "line": field.line,
                    "inheritedFrom": field.inherited,
                }
                for field in fields
            ]
            facts |= _effect_facts(view, definition, stored)
        case Delete(stored):
            facts |= {"file": stored.file, "line": stored.line, **_stored_facts(stored)}
            if stored.kind == Job.kind:
                facts["fireTimes"] = effects.fires_facts(view.fires(None, stored), view.about.until_us)
        case Unchanged(definition, stored):
            facts |= {"file": definition.place.file, "line": definition.place.line, **_stored_facts(stored)}
            facts["moved"] = change.has_moved
        case Broken(_, place, stored):
            facts |= {"file": place.file, "line": place.line, **(_stored_facts(stored) if stored else {})}
    return facts


def _effect_facts(view: _View, definition: Definition, stored: Stored | None) -> dict[str, Json]:
    match definition.declared:
        case Job():
            after, before = view.after(definition), view.before(stored)
            return {
                "triggers": effects.trigger_facts(after, before, view.about.now_us),
                "fireTimes": effects.fires_facts(view.fires(definition, stored), view.about.until_us),
            }
        case Calendar(name=name):
            return {
                "jobs": [
                    {
                        "name": each.definition.declared.name,
                        "fireTimes": effects.fires_facts(view.fires(each.definition, each.stored), view.about.until_us),
                    }
                    for each in reached(view.plan, name)
                ]
            }
        case _:
            return {}


def _stored_facts(stored: Stored) -> dict[str, Json]:
    return {"uid": stored.uid, "generation": stored.generation}
