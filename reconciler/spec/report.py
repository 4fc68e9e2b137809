"""What was found, for people (text with code frames) and for programs (versioned JSON).

The order is always that of the places, so the same tree gives the same bytes.
"""

from __future__ import annotations

import json
from typing import Final

from reconciler.errors import Problem
from reconciler.model.definition import Json
from reconciler.model.tree import Tree
from reconciler.spec.source import lines_of_text
from reconciler.spec.wording import capitalised
from reconciler.words import count

FORMAT_VERSION: Final = "1.0"
_WIDTH: Final = 100
_ALLOWED: Final = "Allowed here: "


def is_valid(tree: Tree, *, strict: bool = False) -> bool:
    """Whether a tree has no errors; with `strict`, no warnings either."""
    return not (tree.problems if strict else tree.errors)


def as_text(tree: Tree, *, verbose: bool = False) -> str:
    """Show every problem with the line it stands in, and then how many there are."""
    parts = [f"{frame(problem, tree.texts.get(problem.place.file, ''))}\n" for problem in tree.problems]
    if verbose:
        parts += [f"read     {file.path or tree.root}" for file in tree.files]
        parts += [f"ignored  {ignored.path}: {ignored.why}" for ignored in tree.ignored]
    parts.append(summary(tree))
    return "\n".join(parts)


def as_json(tree: Tree) -> str:
    """Give everything a program may want to know, as JSON."""
    document = {
        "formatVersion": FORMAT_VERSION,
        "valid": is_valid(tree),
        "complete": tree.complete,
        "definitions": [
            {"name": each.declared.name, "kind": each.declared.kind, "file": each.place.file, "line": each.place.line}
            for each in tree.definitions
        ],
        "problems": [problem_facts(problem) for problem in tree.problems],
        "files": [{"path": file.path, "sha256": file.sha256} for file in tree.files],
        "ignored": [{"path": ignored.path, "why": ignored.why} for ignored in tree.ignored],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def problem_facts(problem: Problem) -> dict[str, Json]:
    """Give a problem as JSON shows it."""
    place = problem.place
    return {
        "rule": problem.rule,
        "severity": problem.severity.value,
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "length": place.length,
        "where": problem.where,
        "what": problem.what,
        "mend": problem.mend,
    }


def summary(tree: Tree) -> str:
    """Say in one line what came of it."""
    valid = f"{count(len(tree.definitions), 'valid definition')} in {count(len(tree.files), 'file')}"
    if not tree.problems:
        return valid
    errors = len(tree.errors)
    files = len({problem.place.file for problem in tree.problems})
    found = [count(errors, "error")] if errors else []
    warnings = len(tree.problems) - errors
    found += [count(warnings, "warning")] if warnings else []
    return f"{' and '.join(found)} in {count(files, 'file')}; {valid}"


def frame(problem: Problem, text: str) -> str:
    """Show a problem with the line it stands in, a caret under the place, and the way to mend it."""
    place = problem.place
    lines = lines_of_text(text)
    width = len(str(place.line))
    bar, head = " " * (width + 1) + "|", f"{problem.severity.value}[{problem.rule}]: {_clean(problem.what)}"
    shown = [head, f"{' ' * width}--> {place}"]
    allowed = _allowed(problem)
    mend = "" if problem.mend.startswith(_ALLOWED) else _uncapitalised(_clean(problem.mend))
    if text and place.line <= len(lines):
        line, column = _window(lines[place.line - 1], place.column)
        carets = "^" * max(1, min(place.length, len(line) - column + 1))
        pointer = f"{bar} {' ' * (column - 1)}{carets} {mend}".rstrip()
        shown += [bar, f"{place.line} | {line}".rstrip(), pointer]
    elif mend:
        shown.append(f"{' ' * (width + 1)}= {mend}")
    if allowed:
        shown.append(f"{' ' * (width + 1)}= allowed here: {allowed}")
    return "\n".join(shown)


def one_line(problem: Problem) -> str:
    """Give a problem in one line, for logs and lists."""
    where = f"{problem.where}: " if problem.where else ""
    end = "" if problem.mend.endswith("?") else "."
    return f"{problem.place}: {where}{_clean(problem.what)}. {_clean(capitalised(problem.mend))}{end}"


def _window(line: str, column: int) -> tuple[str, int]:
    """Cut a long line around the column; give the cut and the column within it."""
    clean = "".join(_clean(character) if len(_clean(character)) == 1 else "·" for character in line)
    if len(clean) <= _WIDTH:
        return clean, min(column, len(clean) + 1)
    start = max(0, min(column - _WIDTH // 2, len(clean) - _WIDTH))
    return clean[start : start + _WIDTH], column - start


def _clean(text: str) -> str:
    """Make control characters harmless: what people committed reaches a terminal here."""
    return "".join(
        character if character.isprintable() else " " if character == "\t" else ascii(character)[1:-1]
        for character in text
    )


def _uncapitalised(text: str) -> str:
    """Begin a sentence small where it goes on after a caret: `Write …`, but not `UTC …` or `5-59`."""
    return text[0].lower() + text[1:] if len(text) > 1 and (text[1].islower() or text[1] == " ") else text


def _allowed(problem: Problem) -> str:
    """List what may stand where an unknown field stands."""
    if problem.mend.startswith(_ALLOWED):
        return _shortened(problem.mend.removeprefix(_ALLOWED))
    return _shortened(", ".join(problem.allowed))


def _shortened(names: str) -> str:
    return names if len(names) <= _WIDTH else f"{names[:_WIDTH].rpartition(', ')[0]}, …"
