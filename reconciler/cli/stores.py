"""Opening the store a command works on, and who is at the command line."""

from __future__ import annotations

import os
import socket

import click

from reconciler.cli.options import DEFAULT_STORE
from reconciler.clock import SystemChance
from reconciler.errors import StoreUnavailableError
from reconciler.store import schema
from reconciler.store.database import Database
from reconciler.store.dialect import DEFAULT_LIMITS, Limits


def open_store(url: str | None, *, create: bool = False, limits: Limits = DEFAULT_LIMITS) -> Database:
    """Open the store a command works on, its schema checked (or, with `create`, brought up to date).

    It is closed when the command ends.
    Raises StoreUnavailableError when there is none, SchemaVersionError when it is another version's.
    """
    database = Database.open(url or DEFAULT_STORE, limits=limits)
    if context := click.get_current_context(silent=True):
        context.call_on_close(database.close)
    file = database.file
    if file is not None and create and url is None:
        file.parent.mkdir(exist_ok=True)
    elif file is not None and create and not file.parent.is_dir():
        raise StoreUnavailableError(f"there is no folder {file.parent} for the store: make it first, or mend --store")
    if file is not None and not create and not file.exists():
        raise StoreUnavailableError(
            f"there is no store at {file}: run `reconciler dev`, name one with --store URL, or make it with "
            f"`reconciler db upgrade`"
        )
    if create:
        schema.upgrade(database)
    else:
        schema.check(database)
    return database


def actor() -> str:
    """Name the person at the command line, as the audit shows them: store mode is full trust."""
    return f"os:{os.environ.get('USER') or os.environ.get('LOGNAME') or os.getuid()}"


def process_name() -> str:
    """Name this process start, unique for ever: host, pid and a random part."""
    return f"{socket.gethostname()}/{os.getpid()}/{SystemChance().token()[:8]}"
