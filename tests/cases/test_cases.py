import re

from tests.cases import case_ids, load_case, vectors
from tests.cases.report import table


def test_every_case_says_what_is_right() -> None:
    assert all(load_case(case)["expect"] for case in case_ids())
    assert all(re.fullmatch(r"[A-Z]+-\d+", case) for case in case_ids())


def test_vectors_carry_an_expression_and_its_instants() -> None:
    assert {"expr", "tz", "after_utc", "next_utc"} <= vectors("CRON-01")[0].keys()


def test_one_failed_test_makes_its_case_failed() -> None:
    shown = table({"CRON-01": {"tests/a.py::test_one": "passed", "tests/a.py::test_two": "failed"}})

    assert shown.splitlines()[1].split()[:3] == ["CRON-01", "cron", "failed"]
