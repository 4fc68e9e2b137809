"""`reconciler approve`: release deletions that the guard holds."""

from __future__ import annotations

import click

from reconciler.cli import options
from reconciler.cli.stores import actor, open_store
from reconciler.errors import NotFoundError
from reconciler.store import passes
from reconciler.store.database import Tx
from reconciler.words import count


@click.command()
@click.argument("digest")
@options.store
def command(digest: str, store_url: str | None) -> None:
    """Approve exactly the set of deletions that DIGEST names, for 24 hours, and ask the leader to try again.

    \b
    Examples:
      reconciler get passes                       shows what is held, under which digest
      reconciler approve 3f2a9c0d41b7e655
    """

    def approve(tx: Tx) -> passes.Pass:
        held = passes.held_under(tx, digest)
        if held is None:
            raise NotFoundError(f"no pass is held under {digest!r}; `reconciler get passes` shows the digests")
        passes.approve(tx, digest, actor=actor())
        passes.request(tx, held.source, requested_by=actor())
        return held

    held = open_store(store_url).tx(approve)
    names = held.report.get("held", [])
    click.echo(
        f"approved for 24 h: {count(len(names), 'deletion')} of source {held.source!r} ({', '.join(names[:10])})"
    )
    click.echo("the leader applies it now; without a leader run `reconciler reconcile`")
