"""Real files swapped, saved and checked out under a running leader: the store follows within a rescan, no prune."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.store import passes
from reconciler.store.passes import Pass
from tests.e2e.cluster import Cluster
from tests.reconcile.cast import document

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

RESCAN_SECONDS = 5.0
"""One rescan, plus the settle pause and the apply itself."""


def served(cluster: Cluster, path: Path) -> None:
    cluster.start("leader", "serve", str(path), "--leader-ttl", "3s", "--rescan", "4s")


def priorities(cluster: Cluster) -> dict[str, int]:
    return {each.name: each.document["spec"].get("priority", 5) for each in cluster.definitions()}


def uids(cluster: Cluster) -> dict[str, str]:
    return {each.name: each.uid for each in cluster.definitions()}


def made(cluster: Cluster) -> list[Pass]:
    return cluster.database.read(lambda tx: passes.listed(tx, limit=1000))


def pruned(cluster: Cluster) -> list[str]:
    return [name for each in made(cluster) for name in each.report.get("pruned", ())]


def arrived(cluster: Cluster, wanted: dict[str, int]) -> None:
    cluster.wait(lambda: priorities(cluster) == wanted, seconds=RESCAN_SECONDS)


def follow(cluster: Cluster, change: Callable[[int], None], *, times: int = 5) -> None:
    """Make a change several times; each arrives within one rescan, under the same uid."""
    before = uids(cluster)
    for number in range(1, times + 1):
        change(number)
        arrived(cluster, {"a": number, "b": number})
    assert uids(cluster) == before
    assert pruned(cluster) == []


def test_five_swaps_of_a_mounted_configmap(cluster: Cluster) -> None:
    """`..data` is a link that is renamed over; the files are links through it."""
    mount = cluster.home / "mount"
    mount.mkdir()

    def swap(number: int) -> None:
        version = mount / f"..version-{number}"
        version.mkdir()
        for name in "ab":
            (version / f"{name}.yaml").write_text(document(name, priority=number))
        (mount / "..data_tmp").symlink_to(version.name)
        (mount / "..data_tmp").rename(mount / "..data")
        if number > 0:
            shutil.rmtree(mount / f"..version-{number - 1}")

    swap(0)
    for name in "ab":
        (mount / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")
    served(cluster, mount)
    cluster.loaded("a", "b")

    follow(cluster, swap)


def test_five_swaps_of_a_link_that_is_the_source_itself(cluster: Cluster) -> None:
    """git-sync: the watched path is a link that is replaced; watching it alone brings no event at all."""
    link = cluster.home / "current"

    def swap(number: int) -> None:
        version = cluster.home / f"checkout-{number}"
        version.mkdir()
        for name in "ab":
            (version / f"{name}.yaml").write_text(document(name, priority=number))
        draft = cluster.home / "current.new"
        draft.symlink_to(version)
        draft.rename(link)

    swap(0)
    served(cluster, link)
    cluster.loaded("a", "b")

    follow(cluster, swap)


def test_five_swaps_of_a_link_on_the_way_to_the_source(cluster: Cluster) -> None:
    """The source is a folder below the link that is swapped."""
    link = cluster.home / "current"

    def swap(number: int) -> None:
        folder = cluster.home / f"checkout-{number}" / "jobs.d"
        folder.mkdir(parents=True)
        for name in "ab":
            (folder / f"{name}.yaml").write_text(document(name, priority=number))
        draft = cluster.home / "current.new"
        draft.symlink_to(folder.parent)
        draft.rename(link)

    swap(0)
    served(cluster, link / "jobs.d")
    cluster.loaded("a", "b")

    follow(cluster, swap)


def test_five_saves_as_an_editor_makes_them(cluster: Cluster) -> None:
    """Written to a swap file, the old one renamed away, the new one renamed over, the backup removed."""

    def save(number: int) -> None:
        for name in "ab":
            path = cluster.jobs / f"{name}.yaml"
            swap = cluster.jobs / f".{name}.yaml.swp"
            swap.write_text("b0VIM 9.0")
            if path.exists():
                path.rename(cluster.jobs / f"{name}.yaml~")
            path.write_text(document(name, priority=number))
            (cluster.jobs / f"{name}.yaml~").unlink(missing_ok=True)
            swap.unlink()

    save(0)
    served(cluster, cluster.jobs)
    cluster.loaded("a", "b")

    follow(cluster, save)


def test_checkouts_of_git_under_a_running_leader(cluster: Cluster) -> None:
    repository = cluster.home / "repository"
    folder = repository / "jobs.d"
    folder.mkdir(parents=True)

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=Northstar", "-c", "user.email=platform@northstar.example"]
        subprocess.run(["git", *identity, *arguments], cwd=repository, check=True, capture_output=True)  # noqa: S607

    git("init", "-q")
    for number in range(6):
        for name in "ab":
            (folder / f"{name}.yaml").write_text(document(name, priority=number))
        git("add", ".")
        git("commit", "-q", "-m", f"Version {number}")
        git("tag", f"v{number}")
    git("checkout", "-q", "v0")
    served(cluster, folder)
    cluster.loaded("a", "b")

    follow(cluster, lambda number: git("checkout", "-q", f"v{number}"))
    assert all(each.revision and not each.revision.endswith("-dirty") for each in made(cluster))


def test_ten_thousand_files_created_in_a_moment(cluster: Cluster) -> None:
    """An overflowing event queue loses events; contents are the truth."""
    served(cluster, cluster.jobs)
    for number in range(10_000):
        (cluster.jobs / f"job-{number:05}.yaml").write_text(document(f"job-{number:05}"))

    cluster.wait(lambda: count(cluster) == 10_000, seconds=120)
    assert pruned(cluster) == []


def test_a_folder_that_vanishes_and_returns(cluster: Cluster) -> None:
    """An unmounted volume: nothing is pruned, and its return is noticed."""
    for name in "ab":
        cluster.job(name, handler={"type": "slow"})
    served(cluster, cluster.jobs)
    cluster.loaded("a", "b")
    before = uids(cluster)

    away = cluster.home / "away"
    cluster.jobs.rename(away)
    cluster.wait(lambda: made(cluster)[0].state == "Refused", seconds=RESCAN_SECONDS)
    away.rename(cluster.jobs)
    (cluster.jobs / "c.yaml").write_text(document("c"))
    cluster.loaded("c")

    assert {name: uid for name, uid in uids(cluster).items() if name in before} == before
    assert pruned(cluster) == []


def count(cluster: Cluster) -> int:
    return sum(len(each.report.get("created", ())) for each in made(cluster))
