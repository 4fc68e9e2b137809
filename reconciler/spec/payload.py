"""A handler's payload: its placeholders, its shape once these are filled in, and what must never stand in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Final

from reconciler.model.definition import Json
from reconciler.model.placeholders import Context, PlaceholderError, check, fill, names_in
from reconciler.spec.build import PAYLOAD, Candidate, add_payload_fault
from reconciler.spec.nodes import Path, Scalar, find, place_at, place_inside
from reconciler.spec.schemas import faults, handler_types
from reconciler.spec.wording import Words

RESERVED: Final = ("RECONCILER_", "LD_", "PATH=", "HOME=", "BASH_ENV=", "ENV=", "PYTHON")
"""Beginnings of `NAME=` that a definition cannot set; the worker refuses the same ones (a test compares them)."""
COMMAND: Final = "command"
"""The handler whose texts stay texts: its arguments and variables are a program's."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})
_SECRET_WORDS: Final = frozenset(
    {"PASSWORD", "PASSWD", "PWD", "SECRET", "TOKEN", "CREDENTIAL", "CREDENTIALS", "APIKEY"}
)
_SECRET_KEYS: Final = frozenset({"API", "ACCESS", "PRIVATE", "SIGNING", "ENCRYPTION"})
_POINTERS: Final = frozenset({"FILE", "PATH", "DIR", "URL", "URI", "NAME", "ID", "TYPE", "TTL", "SECONDS", "LIMIT"})
_TOKENS: Final = (
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "sk_live_",
    "AKIA",
    "eyJhbGci",
    "-----BEGIN",
)
_PARAMETER: Final = "parameters."
_DECLARED: Final = ("spec", "parameters")


def check_payload(made: Candidate) -> None:
    """Add what is wrong with the payload."""
    kind, payload = made.value("spec", "handler", "type"), made.value(*PAYLOAD) or {}
    if not made.is_clean(*PAYLOAD) or not isinstance(payload, dict):
        return
    declared = {item["name"]: item for _, item in made.items(*_DECLARED) if isinstance(item.get("name"), str)}
    for path, text in texts_in(payload):
        for error in check(text, declared):
            _add(made, path, error)
    if not made.is_clean(*PAYLOAD) or kind not in handler_types():
        return
    trial = Context(0, UTC, 1, 1, 1, made.name or "", {name: item.get("default") for name, item in declared.items()})
    is_known = made.is_clean(*_DECLARED)
    unknown = {name for name, item in declared.items() if not is_known or "default" not in item}
    for fault in faults(f"handlers/{kind}", fill(payload, trial, as_text=kind == COMMAND)):
        if not _depends_on(payload, fault.path, unknown):
            add_payload_fault(made, fault)
    if kind == COMMAND and made.is_clean(*PAYLOAD) and not made.is_partial:
        _check_command(made, payload)


def texts_in(value: Json, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """List the texts in a JSON value with their paths."""
    match value:
        case str():
            yield path, value
        case list():
            for index, item in enumerate(value):
                yield from texts_in(item, (*path, index))
        case Mapping():
            for name, item in value.items():
                yield from texts_in(item, (*path, name))
        case _:
            return


def refuse_placeholders(made: Candidate, path: Path, what: str) -> None:
    """Refuse placeholders below a path where nothing would fill them in."""
    for inner, text in texts_in(made.value(*path)):
        if "{{" in text:
            words = Words("placeholder.not-here", f"placeholders are not filled in {what}", "Write the value itself")
            made.add(words, (*path, *inner), place_at(made.file, made.root, (*path, *inner)))


def _add(made: Candidate, path: Path, error: PlaceholderError) -> None:
    node = find(made.root, (*PAYLOAD, *path))
    place = made.place if not isinstance(node, Scalar) else place_inside(made.file, node, error.offset, error.length)
    made.add(Words(error.rule, error.what, error.mend), (*PAYLOAD, *path), place)


def _depends_on(payload: Json, path: Path, parameters: set[str]) -> bool:
    """Whether a value is known only when a run is made: it uses a parameter without a default."""
    value = payload
    for step in path:
        value = value[step]
    return isinstance(value, str) and any(
        name.removeprefix(_PARAMETER) in parameters for name in names_in(value) if name.startswith(_PARAMETER)
    )


def _check_command(made: Candidate, payload: Mapping[str, Json]) -> None:
    argv = payload["argv"]
    if not argv[0]:
        _refuse(made, ("argv", 0), Words("schema.size", "the program has no name", "Write the program's name or path"))
    elif names_in(argv[0]):
        what, mend = "a placeholder chooses the program", "Write the program's name itself"
        _refuse(made, ("argv", 0), Words("placeholder.in-program", what, mend))
    script = _script_of(argv)
    if script is not None and names_in(argv[script]):
        what = "a placeholder stands in the text of a script, where its value would be run"
        mend = 'Hand it over as an argument: [sh, -c, \'echo "$1"\', name, "{{ … }}"]'
        _refuse(made, ("argv", script), Words("placeholder.in-script", what, mend))
    named: set[str] = set()
    for index, variable in enumerate(payload.get("env", ())):
        if variable["name"] in named:
            words = Words("payload.duplicate", f'"{variable["name"]}" is set twice', "Keep one of them")
            _refuse(made, ("env", index, "name"), words)
        named.add(variable["name"])
        if f"{variable['name']}=".startswith(RESERVED):
            words = Words("payload.reserved", f'"{variable["name"]}" is set by the worker alone', "Use another name")
            _refuse(made, ("env", index, "name"), words)
        if looks_secret(variable["name"], variable["value"]):
            what = f'"{variable["name"]}" looks like a secret, and everybody who reads the repository reads it'
            mend = "Take the value out and replace it wherever it is valid; secret references come with a later version"
            _refuse(made, ("env", index, "value"), Words("secret.literal", what, mend))


def _refuse(made: Candidate, path: Path, words: Words) -> None:
    made.add(words, (*PAYLOAD, *path), place_at(made.file, made.root, (*PAYLOAD, *path)))


def _script_of(argv: list[str]) -> int | None:
    """Give the index of the script text of `sh -c TEXT`, however it is written and whatever starts the shell."""
    shells = [index for index, argument in enumerate(argv) if argument.rsplit("/", 1)[-1] in _SHELLS]
    if not shells:
        return None
    for index, argument in enumerate(argv[shells[0] + 1 : -1], shells[0] + 1):
        if argument.startswith("-") and not argument.startswith("--") and argument.endswith("c"):
            return index + 1
    return None


_SECRET_ENDINGS: Final = ("PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "APIKEY")
"""As in PGPASSWORD, which has no underscore."""


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable of that name and value is one that must not stand in a file that many read."""
    if names_in(value) or not value:
        return False
    words = name.upper().split("_")
    named = (
        any(word.endswith(_SECRET_ENDINGS) for word in words)
        or bool(_SECRET_WORDS.intersection(words))
        or (words[-1] == "KEY" and bool(_SECRET_KEYS.intersection(words)))
    )
    points_elsewhere = words[-1] in _POINTERS or value.isdigit()
    return value.startswith(_TOKENS) or (named and not points_elsewhere)
