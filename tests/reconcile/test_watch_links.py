"""A watched path that is itself a link which is swapped: the hint comes all the same, and follows the new target."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.clock import SystemClock
from reconciler.reconcile.watch import Watcher
from tests.traps import both_ways

pytestmark = pytest.mark.timeout(30)

HINT_SECONDS = 5.0
QUIET_SECONDS = 1.0


@pytest.fixture
def link(tmp_path: Path) -> Path:
    (tmp_path / "sources").mkdir()
    link = tmp_path / "sources/current"
    swap(link, 1)
    return link


@pytest.fixture
def hints(link: Path) -> Iterator[threading.Event]:
    hinted = threading.Event()
    watcher = Watcher(link, hinted.set, clock=SystemClock())
    watcher.start()
    await_silence(hinted)
    yield hinted
    watcher.stop()


@both_ways
def test_the_swap_of_a_link_that_is_the_source_itself_is_seen(
    link: Path, monkeypatch: pytest.MonkeyPatch, is_mended: bool, request: pytest.FixtureRequest
) -> None:
    """Trap: "watching a path that is itself a symlink which is swapped: no event at all".

    Mend: `Watcher._watch_links` watches the parent too; contents are compared, and read again at every rescan.
    """
    if not is_mended:
        monkeypatch.setattr(Watcher, "_watch_links", lambda watcher: watcher._stop.wait())  # noqa: SLF001
    hinted = request.getfixturevalue("hints")

    swap(link, 2)

    assert hinted.wait(HINT_SECONDS if is_mended else 2.0)


def test_after_a_swap_the_new_target_is_watched(link: Path, hints: threading.Event) -> None:
    swap(link, 2)
    assert hints.wait(HINT_SECONDS)
    await_silence(hints)

    (link.resolve() / "late.yaml").write_text("late")

    assert hints.wait(HINT_SECONDS)


def swap(link: Path, number: int) -> None:
    """As git-sync does: another checkout, elsewhere, and a link that is replaced at once."""
    checkout = link.parent.parent / f"checkout-{number}"
    checkout.mkdir()
    (checkout / "job.yaml").write_text(f"number: {number}")
    draft = link.with_name("draft")
    draft.symlink_to(checkout)
    draft.rename(link)


def await_silence(hinted: threading.Event) -> None:
    """Until the watcher stands, and what was before has been told."""
    hinted.set()
    while hinted.is_set():
        hinted.clear()
        hinted.wait(QUIET_SECONDS)
