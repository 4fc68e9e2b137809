import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.postgres import URL_VARIABLE, PostgresServer, conninfo_of, database_of, wait_for_end

REPOSITORY = Path(__file__).parent.parent
STARTS_A_SERVER = """
import sys
from tests.postgres import PostgresServer

server = PostgresServer.find()
server.start()
print(server.pid, server.folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    with PostgresServer.find() as server:
        yield server


def test_what_was_committed_survives_a_crash_of_the_server(own_server: PostgresServer) -> None:
    url = own_server.create_database()
    with psycopg.connect(conninfo_of(url)) as connection:
        connection.execute("CREATE TABLE kept (n int)")

    own_server.restart("immediate")

    with psycopg.connect(conninfo_of(url)) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_a_new_database_can_begin_as_a_copy(own_server: PostgresServer) -> None:
    template = own_server.create_database()
    with psycopg.connect(conninfo_of(template)) as connection:
        connection.execute("CREATE TABLE copied (n int)")

    url = own_server.create_database(template=database_of(template))

    with psycopg.connect(conninfo_of(url)) as connection:
        assert connection.execute("SELECT count(*) FROM copied").fetchone() == (0,)


def test_no_server_outlives_tests_that_were_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SERVER], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as tests:
        assert tests.stdout
        pid, folder = tests.stdout.readline().decode().split()
        server = psutil.Process(int(pid))
        warden = next(child for child in psutil.Process(tests.pid).children() if folder in child.cmdline())

        tests.kill()

    wait_for_end(server)
    wait_for_end(warden)
    assert not Path(folder).exists()


def test_each_kind_of_store_starts_empty(store_url: str) -> None:
    assert store_url.startswith(("sqlite:///", "postgresql+psycopg://"))
