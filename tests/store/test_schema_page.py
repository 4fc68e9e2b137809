"""The page on the schema names what is there: no table or index is missing from it, none is made up."""

import re
from pathlib import Path

from reconciler.store.tables import metadata

PAGE = (Path(__file__).parents[2] / "docs" / "schema.md").read_text("utf-8")


def test_the_page_lists_every_table_once() -> None:
    listed = re.findall(r"^\| `([a-z_]+)` \| (?!`)", PAGE, re.MULTILINE)

    assert sorted(listed) == sorted(metadata.tables)


def test_the_page_lists_every_index_and_its_columns() -> None:
    listed = {
        name: re.findall(r"`(\w+)`", columns)
        for name, columns in re.findall(r"^\| `((?:ix|uq)_\w+)` \| ([^|]*?)(?: where [^|]*)? \|", PAGE, re.MULTILINE)
    }

    declared = {
        str(index.name): [column.name for column in index.columns]
        for table in metadata.sorted_tables
        for index in table.indexes
    }
    assert listed == declared


def test_the_picture_knows_only_tables_that_are_there() -> None:
    picture = PAGE.split("```mermaid")[1].split("```")[0]
    drawn = {name for pair in re.findall(r"(\w+) [|o}{-]+ (\w+) :", picture) for name in pair}

    assert drawn
    assert drawn <= set(metadata.tables)
