"""One `dev` at a time over a folder: two would lead one store and start two workers of one name."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TextIO

from reconciler.clock import pid
from reconciler.errors import UsageError


def hold(file: Path) -> TextIO:
    """Hold a file for this process, until it ends in whatever way. Raises UsageError, naming who holds it."""
    held = file.open("a+", encoding="utf-8")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        held.seek(0)
        other = held.read().strip() or "unknown"
        held.close()
        raise UsageError(
            f"another `reconciler dev` works in {file.parent} (process {other}): stop it, or name another folder "
            f"with --state"
        ) from fault
    held.truncate(0)
    held.write(f"{pid()}\n")
    held.flush()
    return held
