"""Real installations, closed after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster


@pytest.fixture
def cluster(store_url: str, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(store_url, tmp_path)
    yield made
    made.close()
