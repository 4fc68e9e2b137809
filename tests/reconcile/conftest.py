"""The store's cast serves here too, and a folder of definitions with someone who reconciles it."""

from pathlib import Path

import pytest

from reconciler.reconcile.apply import Source
from reconciler.reconcile.loop import Reconciler
from tests.reconcile.cast import Committer, loop_over
from tests.store.cast import Store
from tests.store.conftest import *  # noqa: F403 - fixtures are found by name


@pytest.fixture
def committer(store: Store, tmp_path: Path) -> Committer:
    folder = tmp_path / "jobs.d"
    folder.mkdir()
    return Committer(store, folder)


@pytest.fixture
def loop(committer: Committer) -> Reconciler:
    return loop_over(committer, Source("default", committer.folder))
