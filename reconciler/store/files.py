"""Where an SQLite store may lie: on a disk of this machine.

Its locks and its shared memory do not reach over a network: two machines that share the file corrupt it, in silence. So
a file system that other machines may mount is refused by its type.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from reconciler.errors import UsageError

_MOUNTS: Final = Path("/proc/self/mountinfo")
_SHARED: Final = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb3",
        "smbfs",
        "virtiofs",
    }
)
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def refuse_network_file(path: Path) -> None:
    """Refuse a store's file on a file system that other machines may share. Raises UsageError."""
    kind = file_system_of(path)
    if kind in _SHARED:
        raise UsageError(
            f"{path} lies on a network file system ({kind}), where SQLite's locks do not hold: "
            f"put the store on a local disk, or use PostgreSQL"
        )


def file_system_of(path: Path) -> str | None:
    """Give the type of the file system a path lies (or will lie) on; None where the kernel does not say."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return None
    real = os.path.realpath(path)
    best, found = "", None
    for line in lines:
        point, kind = _mount(line)
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of mounts over one another, the last one counts
            best, found = point, kind
    return found


def _mount(line: str) -> tuple[str, str]:
    """Read mount point and type from a line of mountinfo (proc_pid_mountinfo(5))."""
    before, _, after = line.partition(" - ")
    point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), before.split(" ")[4])
    return point, after.split(" ")[0]
