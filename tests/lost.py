"""Answers that are lost: the store commits, and whoever asked for it hears of a fault instead."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from reconciler.store.database import Tx, parse_url
from tests.proxy import proxied


@dataclass(frozen=True, slots=True)
class Losing:
    """`url` is the store by the way that loses answers; `lose` does so to that of a transaction's COMMIT."""

    url: str
    lose: Callable[[Tx], None]


@contextmanager
def losing(url: str) -> Iterator[Losing]:
    """On PostgreSQL the connection is cut, on SQLite the driver's commit is done and raises."""
    if parse_url(url).drivername == "sqlite":
        yield Losing(url, _fail_after_commit)
        return
    with proxied(url) as proxy:
        yield Losing(proxy.url, proxy.lose_answer)


def lose_first_answer(
    patch: pytest.MonkeyPatch, way: Losing, module: Any, step: str, *, then: Exception | None = None
) -> list[Any]:
    """Lose the answer to the first transaction in which `module.step` gave something; `then` is raised afterwards.

    Gives a list that holds what was granted and not heard.
    """
    real: Callable[..., Any] = getattr(module, step)
    lost: list[Any] = []

    def stepped(tx: Tx, *arguments: Any, **named: Any) -> Any:
        if lost and then is not None:
            raise then
        granted = real(tx, *arguments, **named)
        if granted and not lost:
            lost.append(granted)
            way.lose(tx)
        return granted

    patch.setattr(module, step, stepped)
    return lost


def _fail_after_commit(tx: Tx) -> None:
    dialect: Any = tx.connection.dialect
    real = dialect.do_commit

    def commit(connection: sqlite3.Connection) -> None:
        real(connection)
        del dialect.do_commit  # the method of the class is back
        raise sqlite3.OperationalError("disk I/O error")

    dialect.do_commit = commit
