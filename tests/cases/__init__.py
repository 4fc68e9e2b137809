"""Small inputs from public bug reports of comparable systems, each with its right answer.

A test that covers one carries `@pytest.mark.case("CRON-01")`; `make cases` shows which are covered.
"""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("cases.yaml")


def load_case(case_id: str) -> dict[str, Any]:
    return _cases()[case_id]


def vectors(case_id: str) -> list[dict[str, Any]]:
    """The case's rows for a parametrised test: expr, tz, after_utc, next_utc, sometimes alternatives_utc."""
    found: list[dict[str, Any]] = load_case(case_id)["vectors"]
    return found


def case_ids() -> list[str]:
    return list(_cases())


@cache
def _cases() -> dict[str, dict[str, Any]]:
    document = yaml.load(FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return {case["id"]: case for case in document["cases"]}
