"""What several tables share: the list they all stand in, columns, conditions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import BigInteger, Column, Identity, Index, Integer, MetaData, text

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Big: Final = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits; SQLite hands out ids only to a column that is called INTEGER."""


def one_of(column: str, values: Iterable[str]) -> str:
    """Say in SQL that a column holds one of these words."""
    return f"{column} IN ({', '.join(repr(str(value)) for value in sorted(values))})"


def partial(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Index only the rows that some statement looks for."""
    return Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))


def identity() -> Column[int]:
    """Ids never come back: IDENTITY on PostgreSQL, AUTOINCREMENT on SQLite."""
    return Column("id", Big, Identity(), primary_key=True)
