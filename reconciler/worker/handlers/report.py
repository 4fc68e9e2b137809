"""`report-generator`: the sales of one day as CSV, with a summary per region beside it.

Payload (schemas/handlers/report-generator.schema.json): `day` (default: the date of the slot), `regions`, `rows` per
region, `seed`, `output` (default `reports/sales-<day>.csv`). The rows are computed from the payload alone: the same
payload gives the same bytes on every machine. The summary is `<output>.summary.json`.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from reconciler.words import count
from reconciler.worker.handlers.files import DataFolder, PayloadError, replacing

COLUMNS: Final = ("day", "region", "order", "product", "quantity", "unit_price", "amount")
PRODUCTS: Final = ("Anchor", "Beacon", "Compass", "Lantern", "Sextant", "Telescope")


@dataclass(frozen=True, slots=True)
class Sale:
    """One row; money in cents."""

    day: str
    region: str
    order: int
    product: str
    quantity: int
    unit_cents: int

    @property
    def cents(self) -> int:
        """What the order is worth."""
        return self.quantity * self.unit_cents


def run(payload: Mapping[str, Any], data: DataFolder, environment: Mapping[str, str]) -> str:
    """Write the report and its summary; give one line that says so."""
    day = _day(payload.get("day") or environment["RECONCILER_SLOT"][:10])
    regions: Sequence[str] = payload.get("regions", ("eu", "us"))
    path = data.path(payload.get("output", f"reports/sales-{day}.csv"))
    totals = {region: [0, 0] for region in regions}
    with replacing(path) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for sale in sales(day, regions, payload.get("rows", 100), seed=payload.get("seed", "northstar")):
            table.writerow(_cells(sale))
            totals[sale.region][0] += 1
            totals[sale.region][1] += sale.cents
    with replacing(path.with_name(f"{path.name}.summary.json")) as file:
        json.dump(_summary(day, totals), file, indent=2, ensure_ascii=False)
        file.write("\n")
    orders, cents = (sum(total[at] for total in totals.values()) for at in (0, 1))
    return f"{data.name_of(path)}: {count(orders, 'order')}, {_money(cents)}"


def sales(day: str, regions: Sequence[str], rows: int, *, seed: str) -> Iterator[Sale]:
    """Compute the day's sales: every value from its own bytes of a hash over seed, day, region and order number."""
    for region in regions:
        for order in range(1, rows + 1):
            drawn = hashlib.sha256(f"{seed}/{day}/{region}/{order}".encode()).digest()
            yield Sale(
                day=day,
                region=region,
                order=order,
                product=PRODUCTS[drawn[0] % len(PRODUCTS)],
                quantity=1 + drawn[1] % 9,
                unit_cents=100 + int.from_bytes(drawn[2:4]) % 49_900,
            )


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as fault:
        raise PayloadError(f"day: {text!r} is no date; write it like 2026-01-31") from fault


def _cells(sale: Sale) -> tuple[str | int, ...]:
    price, amount = _money(sale.unit_cents), _money(sale.cents)
    return (sale.day, sale.region, sale.order, sale.product, sale.quantity, price, amount)


def _summary(day: str, totals: Mapping[str, list[int]]) -> dict[str, Any]:
    regions = [
        {"region": region, "orders": orders, "amount": _money(cents)} for region, (orders, cents) in totals.items()
    ]
    return {"day": day, "regions": regions, "amount": _money(sum(cents for _, cents in totals.values()))}


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"
