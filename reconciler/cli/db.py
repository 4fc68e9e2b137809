"""`reconciler db`: the schema of the store."""

from __future__ import annotations

import click

from reconciler.cli import options
from reconciler.cli.stores import open_store
from reconciler.store import schema


@click.group()
def command() -> None:
    """Bring the store's schema up to date, or check it.

    \b
    Examples:
      reconciler db upgrade
      reconciler db check --store postgresql://db/reconciler
    """


@command.command()
@options.store
def upgrade(store_url: str | None) -> None:
    """Create the store or bring its schema to this version, in one transaction.

    \b
    Examples:
      reconciler db upgrade --store postgresql://db/reconciler
    """
    database = open_store(store_url, create=True)
    click.echo(f"schema {schema.head()} is in place: {database.shown}")
    database.close()


@command.command()
@options.store
def check(store_url: str | None) -> None:
    """Say whether the store's schema is this version's; exit 4 when it is not.

    \b
    Examples:
      reconciler db check
    """
    open_store(store_url).close()
    click.echo(f"schema {schema.head()}: up to date")
