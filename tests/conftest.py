"""Fixtures every part of the suite may use: the two databases, and the cases."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import case_ids
from tests.postgres import NoPostgres, PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests (under xdist: one per worker process). Tests that stop it start their own."""
    try:
        server = PostgresServer.find()
        server.start()
    except NoPostgres as error:
        pytest.fail(str(error), pytrace=False)
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database of this test's own."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database; a test that takes it runs once on each kind."""
    url: str = request.getfixturevalue({"sqlite": "sqlite_url", "postgresql": "postgres_url"}[request.param])
    return url


def pytest_configure() -> None:
    """What a shell starts in the background inherits that SIGINT is ignored; processes of ours must not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = case_ids()
    for item in items:
        for mark in item.iter_markers("case"):
            unknown = [name for name in mark.args if name not in known]
            if unknown or not mark.args:
                raise pytest.UsageError(f"{item.nodeid}: no such case in tests/cases/cases.yaml: {unknown}")
