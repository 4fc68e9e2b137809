"""The front door: a directory, some files or a git revision become a `Tree`, with all problems at once.

Nothing here decides what to do about problems. A definition with an error is left out and its name kept, so that the
last good version can go on; a file whose definitions could not be enumerated makes the tree incomplete.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from reconciler.errors import Place, Problem, Severity, in_order
from reconciler.model.definition import DEFAULT_TIME_ZONE, Job
from reconciler.model.kinds import Calendar, Defaults, Key, declared_from
from reconciler.model.tree import Definition, SourceFile, Tree
from reconciler.spec.build import Candidate, candidate, check_shape
from reconciler.spec.calendars import Files, check_calendar, check_calendars
from reconciler.spec.check import check, check_names, check_queues
from reconciler.spec.clocks import clock_warnings
from reconciler.spec.files import ICALENDAR, Content, Scan, SourceUnavailableError, scan, single
from reconciler.spec.merge import refuse_reserved_name, take_defaults
from reconciler.spec.nodes import keys_in
from reconciler.spec.revision import scan_revision
from reconciler.spec.source import HAS_LIBYAML, Limits, read

__all__ = ["SourceUnavailableError", "load_paths", "load_revision", "load_tree", "tree_of"]

DEFAULT_LIMITS: Final = Limits()


def load_tree(path: str | Path, *, limits: Limits = DEFAULT_LIMITS, time_zone: str = DEFAULT_TIME_ZONE) -> Tree:
    """Read every definition under a directory. Raises SourceUnavailableError when it is missing or unreadable."""
    return tree_of(scan(path, limits), limits=limits, time_zone=time_zone)


def load_paths(
    paths: Sequence[str | Path],
    *,
    limits: Limits = DEFAULT_LIMITS,
    time_zone: str = DEFAULT_TIME_ZONE,
    warn_from_us: int | None = None,
) -> Tree:
    """Read directories and single files as one tree. Raises SourceUnavailableError.

    `warn_from_us` asks for warnings of the changes of the clocks in the year that begins then.
    """
    found = [scan(path, limits) if Path(path).is_dir() else single(path, limits) for path in paths]
    return tree_of(*found, limits=limits, time_zone=time_zone, warn_from_us=warn_from_us)


def load_revision(
    path: str | Path, revision: str, *, limits: Limits = DEFAULT_LIMITS, time_zone: str = DEFAULT_TIME_ZONE
) -> Tree:
    """Read a directory as it was committed in a git revision. Raises SourceUnavailableError, UsageError."""
    return tree_of(scan_revision(path, revision, limits), limits=limits, time_zone=time_zone)


def tree_of(
    *scans: Scan,
    limits: Limits = DEFAULT_LIMITS,
    time_zone: str = DEFAULT_TIME_ZONE,
    warn_from_us: int | None = None,
) -> Tree:
    """Turn what was scanned into a tree; `time_zone` is that of triggers which name none."""
    texts: dict[str, str] = {}
    problems = list(dict.fromkeys(problem for each in scans for problem in each.problems))
    candidates: list[Candidate] = []
    complete = all(each.complete for each in scans)
    contents = dict(_contents(scans))
    referred = {
        posixpath.normpath(file): content.content for file, content in contents.items() if file.endswith(ICALENDAR)
    }
    for file, content in contents.items():
        if file.endswith(ICALENDAR):
            continue
        source = read(file, content.content, limits)
        texts[file] = content.content.decode("utf-8", errors="replace")
        problems += source.problems
        complete = complete and source.readable
        candidates += [candidate(file, document) for document in source.documents]
    _check(candidates, referred, limits=limits, time_zone=time_zone)
    problems += [problem for made in candidates for problem in made.problems]
    if warn_from_us is not None:
        sound = (made for made in candidates if made.is_job and made.is_sound)
        problems += [each for made in sound for each in clock_warnings(made, warn_from_us, time_zone=time_zone)]
    if not HAS_LIBYAML:
        problems.append(_slow_parser(scans[0].root))
    with_problems = {problem.place.file for problem in problems}
    return Tree(
        root=", ".join(each.root for each in scans),
        definitions=[_definition(made, time_zone) for made in candidates if made.is_sound],
        problems=in_order(problems),
        files=[SourceFile(content.path, content.sha256) for content in contents.values()],
        ignored=list({(each.root, ignored.path): ignored for each in scans for ignored in each.ignored}.values()),
        complete=complete and all(made.is_sound or made.name is not None for made in candidates),
        broken_names=_broken(candidates),
        faults=_faults(candidates, problems),
        texts={file: text for file, text in texts.items() if file in with_problems},
    )


def _contents(scans: Sequence[Scan]) -> Iterator[tuple[str, Content]]:
    """Give each file once, by the name its places carry, even when a path was named twice."""
    seen: set[str] = set()
    for each in scans:
        for content in each.contents:
            file = each.place(content.path).file
            if file not in seen:
                seen.add(file)
                yield file, content


def _check(candidates: Sequence[Candidate], files: Files, *, limits: Limits, time_zone: str) -> None:
    """Check what jobs refer to before the jobs: what is broken there holds them back, and is told once."""
    check_names(candidates)
    jobs = [made for made in candidates if made.kind == Job.kind]
    for made in candidates:
        if made.kind != Job.kind:
            check_shape(made)
        if made.kind == Calendar.kind:
            check_calendar(made, files, limits=limits, time_zone=time_zone)
    defaults = {made.name: made for made in candidates if made.kind == Defaults.kind and made.name is not None}
    for made in defaults.values():
        refuse_reserved_name(made)
    for made in jobs:
        if made.is_job:
            take_defaults(made, defaults)
        check_shape(made)
        check(made, time_zone=time_zone)
    check_calendars(candidates, time_zone=time_zone)
    check_queues(candidates)


def _definition(made: Candidate, time_zone: str) -> Definition:
    lines, taken = {}, {}
    for path, key in keys_in(made.root):
        if key.file is None:
            lines[path] = key.line
        else:
            taken[path] = f"defaults {made.defaults}, {key.file}:{key.line}"
    return Definition(declared_from(made.document, time_zone=time_zone), made.place, lines, taken)


def _broken(candidates: Sequence[Candidate]) -> Mapping[Key, Place]:
    return {(made.kind, made.name): made.place for made in candidates if made.name is not None and not made.is_sound}


def _faults(candidates: Sequence[Candidate], problems: Sequence[Problem]) -> Mapping[Key, Sequence[Problem]]:
    """Say of each broken name what holds it back: its own problems, those of its text, or of what it waits for."""
    found = {}
    for made in candidates:
        if made.name is not None and not made.is_sound:
            of_text = [problem for problem in problems if problem.place in made.refused]
            of_other = [] if made.waits_for is None else made.waits_for.problems
            found[made.kind, made.name] = in_order(dict.fromkeys([*made.problems, *of_text])) or in_order(of_other)
    return found


def _slow_parser(root: str) -> Problem:
    what = "PyYAML was installed without libyaml, so files are read eight times slower"
    return Problem("yaml.slow", Place(root), "", what, "Install a wheel of PyYAML for this platform", Severity.WARNING)
