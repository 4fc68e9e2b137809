"""An SQLite store on a network file system is refused by its mount type."""

from pathlib import Path

import pytest

from reconciler.errors import UsageError
from reconciler.store import files
from reconciler.store.database import Database

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /srv/share rw - nfs4 server:/export rw,vers=4.2
31 30 254:1 / /srv/share/local rw - xfs /dev/vdb rw
32 22 0:30 / /srv/with\\040space rw - cifs //server/x rw
33 22 0:31 / /srv/sharedlike rw - tmpfs tmpfs rw
"""


@pytest.fixture(autouse=True)
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = tmp_path / "mountinfo"
    listing.write_text(MOUNTS)
    monkeypatch.setattr(files, "_MOUNTS", listing)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/store.db", "ext4"),
        ("/srv/share/store.db", "nfs4"),
        ("/srv/share/local/store.db", "xfs"),
        ("/srv/with space/store.db", "cifs"),
        ("/srv/sharedlike/store.db", "tmpfs"),
        ("/srv/share-too/store.db", "ext4"),
    ],
)
def test_the_innermost_mount_decides(path: str, kind: str) -> None:
    assert files.file_system_of(Path(path)) == kind


@pytest.mark.parametrize("path", ["/srv/share/store.db", "/srv/with space/store.db"])
def test_a_store_on_a_network_file_system_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="network file system"):
        Database.open(f"sqlite:///{path}")


def test_where_the_kernel_does_not_say_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "_MOUNTS", tmp_path / "nowhere")

    Database.open(f"sqlite:///{tmp_path / 'store.db'}").close()
