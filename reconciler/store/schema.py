"""The version of the store's schema: brought up to date, or refused with the command that does it."""

from __future__ import annotations

from importlib import resources

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
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
        command.upgrade(_config(tx.connection), "head")
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
    return str(_scripts().get_current_head())


def _too_new(database: Database, found: str) -> SchemaVersionError:
    shown = database.shown
    return SchemaVersionError(
        f"the store {shown} has schema {found}, which this program does not know: install the release that made it"
    )


def _known() -> set[str]:
    return {revision.revision for revision in _scripts().walk_revisions()}


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config(None))


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.files("reconciler.store") / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
