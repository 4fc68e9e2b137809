"""Values of parameters: each must be what its parameter's schema allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.errors import UsageError
from reconciler.model.definition import Job, Json
from reconciler.spec.schemas import Fault, faults_by
from reconciler.spec.wording import Words, did_you_mean, shown, words_of


def value_words(definition: Mapping[str, Json], value: Json) -> Iterator[Words]:
    """Say what a parameter's schema refuses in a value."""
    for fault in faults_by(definition, value):
        words = _name_words(fault) or words_of(fault)
        inside = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault.path)
        yield words._replace(what=f"{inside.removeprefix('.')}: {words.what}" if inside else words.what)


def check_parameters(job: Job, given: Mapping[str, Json]) -> dict[str, Json]:
    """Check the parameters of a run that is made by hand, and give them back. Raises UsageError for the first fault.

    A parameter without a default must be given; the others may be.
    """
    known = {parameter.name: parameter for parameter in job.parameters}
    for name, value in given.items():
        if name not in known:
            mend = did_you_mean(name, known, otherwise=f"It has: {', '.join(known) or 'none'}")
            raise UsageError(f'{job.name} has no parameter "{name}". {mend}')
        for words in value_words(known[name].schema, value):
            raise UsageError(f'parameter "{name}": {words.what}. {words.mend}')
    for parameter in job.parameters:
        if not parameter.has_default and parameter.name not in given:
            raise UsageError(f'{job.name} needs the parameter "{parameter.name}". Give it: {parameter.name}=VALUE')
    return dict(given)


def _name_words(fault: Fault) -> Words | None:
    if fault.keyword == "required":
        missing = next((name for name in fault.limit if name not in fault.value), "")
        return Words("schema.required", f'"{missing}" is missing in {shown(fault.value)}', f"Add {missing}")
    if fault.keyword == "additionalProperties":
        allowed = sorted(fault.schema.get("properties", {}))
        extra = next((name for name in fault.value if name not in allowed), "")
        mend = did_you_mean(extra, allowed, otherwise=f"Allowed here: {', '.join(allowed) or 'none'}")
        return Words("schema.unknown-field", f'unknown field "{extra}"', mend)
    return None
