"""`csv-transform`: read a CSV of the data folder, keep some rows and columns, sort, and write another one.

Payload (schemas/handlers/csv-transform.schema.json): `input`, `output`, `where` (conditions on columns that must all
hold: `equals`, `in`, `atLeast`, `atMost`), `columns` (which, in this order), `sortBy` (columns, the most important
first, each `Ascending` or `Descending`, as `Text` or `Number`).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from reconciler.words import count
from reconciler.worker.handlers.files import DataFolder, PayloadError, replacing

Row = dict[str, str]
_DESCENDING: Final = "Descending"
_NUMBER: Final = "Number"


def run(payload: Mapping[str, Any], data: DataFolder, _environment: Mapping[str, str]) -> str:
    """Transform the file; give one line that says what came of it."""
    source, target = data.path(payload["input"]), data.path(payload["output"])
    header, rows = _read(source, data.name_of(source))
    columns: Sequence[str] = payload.get("columns") or header
    conditions: Sequence[Mapping[str, Any]] = payload.get("where", ())
    order: Sequence[Mapping[str, str]] = payload.get("sortBy", ())
    _check_columns([*columns, *(each["column"] for each in (*conditions, *order))], header, data.name_of(source))
    kept = [row for row in rows if all(_holds(condition, row) for condition in conditions)]
    for each in reversed(order):  # the sort is stable, so the most important column goes last
        kept.sort(key=_sort_key(each), reverse=each.get("order") == _DESCENDING)
    with replacing(target) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(columns)
        table.writerows([row[column] for column in columns] for row in kept)
    return f"{data.name_of(target)}: {len(kept):,} of {count(len(rows), 'row')}, {count(len(columns), 'column')}"


def _read(source: Path, name: str) -> tuple[list[str], list[Row]]:
    if source.exists() and not source.is_file():  # a FIFO would be waited for
        raise PayloadError(f"input: {name!r} is no regular file")
    try:
        with source.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file, strict=True)
            rows = [_whole(row, table.line_num, name) for row in table]
            return list(table.fieldnames or ()), rows
    except FileNotFoundError as fault:
        raise PayloadError(f"input: there is no file {name!r} in the data folder") from fault
    except (csv.Error, UnicodeDecodeError) as fault:
        raise PayloadError(f"input: {name!r} is no CSV in UTF-8: {fault}") from fault


def _whole(row: Mapping[str | Any, str | Any], line: int, name: str) -> Row:
    # DictReader files surplus values under None, and gives None for missing ones.
    if None in row or None in row.values():
        raise PayloadError(f"input: {name!r}, line {line}: not as many values as the first line has names")
    return dict(row)


def _check_columns(used: Iterable[str], header: Sequence[str], name: str) -> None:
    for column in used:
        if column not in header:
            raise PayloadError(f"{name!r} has no column {column!r}; it has {', '.join(header)}")


def _holds(condition: Mapping[str, Any], row: Row) -> bool:
    value = row[condition["column"]]
    if "equals" in condition and value != str(condition["equals"]):
        return False
    if "in" in condition and value not in [str(each) for each in condition["in"]]:
        return False
    if "atLeast" in condition and _number(value) < _number(str(condition["atLeast"])):
        return False
    return "atMost" not in condition or _number(value) <= _number(str(condition["atMost"]))


def _sort_key(order: Mapping[str, str]) -> Callable[[Row], Any]:
    column = order["column"]
    if order.get("as") == _NUMBER:
        return lambda row: _number(row[column])
    return lambda row: row[column]


def _number(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation as fault:
        raise PayloadError(f"{text!r} is no number") from fault
    if number.is_nan():
        raise PayloadError(f"{text!r} is no number")
    return number
