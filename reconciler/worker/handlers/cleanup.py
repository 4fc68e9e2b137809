"""`cleanup`: remove old files of the node's data folder, and of nowhere else.

Payload (schemas/handlers/cleanup.schema.json): `folder` (default the whole data folder), `pattern` for file names,
`olderThan`, counted back from the slot. Links are neither followed nor removed; folders stay, and so do names that
begin with a dot (files being written).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from reconciler.words import count
from reconciler.worker.handlers.files import DataFolder, PayloadError, say, seconds_in

_NAMED_AT_MOST: Final = 20


def run(payload: Mapping[str, Any], data: DataFolder, environment: Mapping[str, str]) -> str:
    """Remove what is old enough; name the first few and count the rest."""
    slot = datetime.fromisoformat(environment["RECONCILER_SLOT"]).timestamp()
    before = slot - seconds_in("olderThan", payload.get("olderThan", "7d"))
    folder = data.path(payload.get("folder", "."))
    if not folder.is_dir():
        raise PayloadError(f"folder: there is no folder {data.name_of(folder)!r} in the data folder")
    removed, freed = 0, 0
    for path, size in _remove_old(folder, payload.get("pattern", "*"), before):
        removed, freed = removed + 1, freed + size
        if removed <= _NAMED_AT_MOST:
            say(f"removed {data.name_of(path)}")
    return f"{count(removed, 'file')} removed, {count(freed, 'byte')} freed"


def _remove_old(top: Path, pattern: str, before: float) -> Iterator[tuple[Path, int]]:
    """Remove files relative to open folders: a folder that is swapped for a link meanwhile leads nowhere else."""
    for folder, _, names, opened in os.fwalk(top, follow_symlinks=False):
        for name in sorted(names):
            if name.startswith(".") or not fnmatchcase(name, pattern):
                continue
            facts = os.stat(name, dir_fd=opened, follow_symlinks=False)
            if stat.S_ISREG(facts.st_mode) and facts.st_mtime < before:
                os.unlink(name, dir_fd=opened)
                yield Path(folder, name), facts.st_size
