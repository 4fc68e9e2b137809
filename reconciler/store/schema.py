"""The version of the store's schema: brought up to date, or refused with the command that does it."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from reconciler.errors import SchemaVersionError
from reconciler.store import boot
from reconciler.store.database import Database, Tx


def upgrade(database: Database) -> tuple[str | None, str]:
    """Bring the schema to this program's version in one transaction; give the version before and after.

    Raises SchemaVersionError for a store of a newer release.
    """

    def run(tx: Tx) -> tuple[str | None, str]:
        before = _version(tx.connection)
        if before is not None and before not in _known():
            raise _too_new(database, before)
        _migrate(tx.connection)
        return before, head()

    unhurried = database.unhurried()
    try:
        versions = unhurried.tx(run)
    except DBAPIError:
        # Another process was quicker: PostgreSQL made us wait for it, then refused to make what exists by now.
        if database.read(lambda tx: _version(tx.connection)) != head():
            raise
        versions = head(), head()
    finally:
        unhurried.close()
    boot.adopt(database)
    return versions


def check(database: Database) -> None:
    """Refuse a store whose schema is not this program's, and end what hung on an earlier boot.

    Raises SchemaVersionError.
    """
    found = database.read(lambda tx: _version(tx.connection))
    if found == head():
        boot.adopt(database)
        return
    shown = database.shown
    if found is None:
        raise SchemaVersionError(f"the store {shown} is empty: run `reconciler db upgrade` with the same --store once")
    if found in _known():
        raise SchemaVersionError(
            f"the store {shown} has schema {found}, this program needs {head()}: "
            f"run `reconciler db upgrade` with the same --store"
        )
    raise _too_new(database, found)


def head() -> str:
    """Give the schema version this program works with."""
    return _known()[-1]


def _too_new(database: Database, found: str) -> SchemaVersionError:
    shown = database.shown
    return SchemaVersionError(
        f"the store {shown} has schema {found}, which this program does not know: install the release that made it"
    )


@cache
def _known() -> tuple[str, ...]:
    """List the versions, oldest first, by the names of their migrations: reading those takes no Alembic."""
    files = (resources.files("reconciler.store") / "migrations" / "versions").iterdir()
    return tuple(sorted(found[1] for file in files if (found := re.match(r"(\d{4})_\w+\.py$", file.name))))


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(connection: Connection, version: str = "head") -> None:
    # Loaded here, as every command would otherwise start a fifth later for what few of them do.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(resources.files("reconciler.store") / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, version)
