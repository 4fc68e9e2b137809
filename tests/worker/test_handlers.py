"""The demo handlers do real work on real files; what they write is computed here once more, by other means."""

import csv
import hashlib
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from reconciler.worker.handlers import DEMO, NAMES, child_argv

SLOT = "2026-01-05T07:30:00Z"
SLOT_SECONDS = 1_767_598_200
DAY_SECONDS = 86_400


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def handle(name: str, data: Path, *, definition: str = "nightly", slot: str = SLOT, **payload: Any) -> tuple[int, str]:
    """Run a handler as the guard does; give its exit code and everything it printed."""
    done = subprocess.run(
        child_argv(name),
        input=json.dumps(payload),
        env={
            "LANG": "C.UTF-8",
            "RECONCILER_DATA": str(data),
            "RECONCILER_SLOT": slot,
            "RECONCILER_DEFINITION": definition,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def expected_sale(seed: str, region: str, order: int) -> dict[str, str]:
    digits = hashlib.sha256(f"{seed}/2026-01-05/{region}/{order}".encode()).hexdigest()
    quantity = 1 + int(digits[2:4], 16) % 9
    price = Decimal(100 + int(digits[4:8], 16) % 49_900) / 100
    return {
        "day": "2026-01-05",
        "region": region,
        "order": str(order),
        "product": ["Anchor", "Beacon", "Compass", "Lantern", "Sextant", "Telescope"][int(digits[0:2], 16) % 6],
        "quantity": str(quantity),
        "unit_price": f"{price:.2f}",
        "amount": f"{quantity * price:.2f}",
    }


def expected_sales(seed: str, rows: int) -> list[dict[str, str]]:
    return [expected_sale(seed, region, order) for region in ("eu", "us") for order in range(1, rows + 1)]


def test_every_demo_handler_is_known_by_name() -> None:
    assert set(NAMES) == {"command", "noop", *DEMO}


def test_the_report_holds_exactly_the_rows_that_the_payload_means(data: Path) -> None:
    code, printed = handle("report-generator", data, rows=250, seed="s42", output="out/sales.csv")

    rows = table(data / "out/sales.csv")
    assert code == 0
    assert rows == expected_sales("s42", 250)
    assert printed == f"out/sales.csv: 500 orders, {sum(Decimal(row['amount']) for row in rows)}\n"


def test_the_summary_beside_the_report_adds_up(data: Path) -> None:
    handle("report-generator", data, day="2026-01-31", regions=["north", "south"], rows=7)

    rows = table(data / "reports/sales-2026-01-31.csv")
    assert {row["day"] for row in rows} == {"2026-01-31"}
    assert json.loads((data / "reports/sales-2026-01-31.csv.summary.json").read_text()) == {
        "day": "2026-01-31",
        "regions": [
            {
                "region": region,
                "orders": 7,
                "amount": f"{sum(Decimal(row['amount']) for row in rows if row['region'] == region):.2f}",
            }
            for region in ("north", "south")
        ],
        "amount": f"{sum(Decimal(row['amount']) for row in rows):.2f}",
    }


def test_without_a_payload_the_report_is_of_the_day_of_the_slot(data: Path) -> None:
    assert handle("report-generator", data)[0] == 0

    assert table(data / "reports/sales-2026-01-05.csv") == expected_sales("northstar", 100)


def test_the_same_payload_gives_the_same_bytes(data: Path) -> None:
    for name in ("first.csv", "second.csv"):
        handle("report-generator", data, rows=50, output=name)

    assert (data / "first.csv").read_bytes() == (data / "second.csv").read_bytes()


def test_a_transform_filters_selects_and_sorts(data: Path) -> None:
    handle("report-generator", data, rows=300, seed="s3", output="in.csv")

    code, printed = handle(
        "csv-transform",
        data,
        input="in.csv",
        output="out/eu.csv",
        where=[
            {"column": "region", "equals": "eu"},
            {"column": "product", "in": ["Anchor", "Lantern"]},
            {"column": "quantity", "atLeast": 3, "atMost": 8},
        ],
        columns=["product", "amount", "order"],
        sortBy=[{"column": "product", "order": "Descending"}, {"column": "amount", "as": "Number"}],
    )

    wanted = [
        row
        for row in expected_sales("s3", 300)
        if row["region"] == "eu" and row["product"] in {"Anchor", "Lantern"} and 3 <= int(row["quantity"]) <= 8
    ]
    wanted.sort(key=lambda row: (row["product"] == "Anchor", Decimal(row["amount"]), int(row["order"])))
    lines = ["product,amount,order", *(f"{row['product']},{row['amount']},{row['order']}" for row in wanted)]
    assert code == 0
    assert len(wanted) > 20
    assert (data / "out/eu.csv").read_text() == "\n".join(lines) + "\n"
    assert printed == f"out/eu.csv: {len(wanted)} of 600 rows, 3 columns\n"


def test_rows_that_are_equal_in_what_is_sorted_by_keep_their_order_in_both_directions(data: Path) -> None:
    (data / "in.csv").write_text("k,n\na,1\nb,2\na,3\nb,4\n")

    handle("csv-transform", data, input="in.csv", output="up.csv", sortBy=[{"column": "k"}])
    handle("csv-transform", data, input="in.csv", output="down.csv", sortBy=[{"column": "k", "order": "Descending"}])

    assert (data / "up.csv").read_text() == "k,n\na,1\na,3\nb,2\nb,4\n"
    assert (data / "down.csv").read_text() == "k,n\nb,2\nb,4\na,1\na,3\n"


def test_texts_are_sorted_as_texts_unless_numbers_are_asked_for(data: Path) -> None:
    (data / "in.csv").write_text("name\n9\n10\n")

    handle("csv-transform", data, input="in.csv", output="text.csv", sortBy=[{"column": "name"}])
    handle("csv-transform", data, input="in.csv", output="number.csv", sortBy=[{"column": "name", "as": "Number"}])

    assert (data / "text.csv").read_text() == "name\n10\n9\n"
    assert (data / "number.csv").read_text() == "name\n9\n10\n"


def test_quoted_values_survive_a_transform(data: Path) -> None:
    (data / "in.csv").write_text('name,note\nAnchor,"one, two\nthree ""four"""\n')

    handle("csv-transform", data, input="in.csv", output="out.csv")

    assert table(data / "out.csv") == [{"name": "Anchor", "note": 'one, two\nthree "four"'}]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"input": "missing.csv", "output": "out.csv"}, "there is no file 'missing.csv'"),
        ({"input": "in.csv", "output": "out.csv", "columns": ["b"]}, "'in.csv' has no column 'b'; it has a"),
        ({"input": "in.csv", "output": "out.csv", "where": [{"column": "a", "atMost": 3}]}, "'x' is no number"),
        ({"input": "ragged.csv", "output": "out.csv"}, "line 3: not as many values"),
        ({"input": "../in.csv", "output": "out.csv"}, "is no path inside the data folder"),
        ({"input": "in.csv", "output": "/out.csv"}, "is no path inside the data folder"),
        ({"input": "in.csv", "output": "link/out.csv"}, "leads out of the data folder through a link"),
    ],
)
def test_what_cannot_be_transformed_is_said_in_one_line_and_nothing_is_written(
    data: Path, payload: dict[str, Any], error: str
) -> None:
    (data / "in.csv").write_text("a\nx\n")
    (data / "ragged.csv").write_text("a,b\n1,2\n3\n")
    (data / "link").symlink_to(data.parent)
    before = sorted(data.parent.rglob("*"))

    code, printed = handle("csv-transform", data, **payload)

    assert code == 64
    assert error in printed
    assert printed.count("\n") == 1
    assert sorted(data.parent.rglob("*")) == before


def aged(path: Path, *, days: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x" * 10)
    os.utime(path, (SLOT_SECONDS - days * DAY_SECONDS,) * 2)
    return path


def test_cleanup_removes_what_is_old_and_matches_counted_from_the_slot(data: Path) -> None:
    old = [aged(data / "a.csv", days=8), aged(data / "deep/er/b.csv", days=7.1)]
    kept = [
        aged(data / "young.csv", days=6.9),
        aged(data / "old.txt", days=30),
        aged(data / ".being-written.csv", days=30),
    ]

    code, printed = handle("cleanup", data, pattern="*.csv")

    assert code == 0
    assert printed == "removed a.csv\nremoved deep/er/b.csv\n2 files removed, 20 bytes freed\n"
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in kept)
    assert (data / "deep/er").is_dir()


def test_cleanup_without_a_payload_touches_only_old_files_of_the_data_folder(data: Path) -> None:
    outside = aged(data.parent / "outside/precious.txt", days=100)
    (data / "link-to-folder").symlink_to(outside.parent)
    (data / "link-to-file").symlink_to(outside)
    aged(data / "old.txt", days=100)

    code, printed = handle("cleanup", data)

    assert code == 0
    assert printed.endswith("1 file removed, 10 bytes freed\n")
    assert outside.exists()
    assert sorted(path.name for path in data.iterdir()) == ["link-to-file", "link-to-folder"]


def test_cleanup_prints_names_that_are_no_text(data: Path) -> None:
    aged(Path(os.fsdecode(os.fsencode(data) + b"/\xff\n.csv")), days=9)

    code, printed = handle("cleanup", data)

    assert code == 0
    assert printed.endswith("1 file removed, 10 bytes freed\n")


def test_cleanup_of_a_folder_stays_in_it(data: Path) -> None:
    kept, gone = aged(data / "other/a.csv", days=9), aged(data / "reports/a.csv", days=9)

    assert handle("cleanup", data, folder="reports")[0] == 0
    assert (kept.exists(), gone.exists()) == (True, False)
    assert "no folder 'missing'" in handle("cleanup", data, folder="missing")[1]


def test_flaky_fails_the_first_attempts_of_each_slot_and_then_succeeds(data: Path) -> None:
    codes = [handle("flaky", data, failures=2)[0] for _ in range(4)]
    next_slot = handle("flaky", data, slot="2026-01-06T07:30:00Z", failures=2)
    other = handle("flaky", data, definition="../../other", failures=0)

    assert codes == [1, 1, 0, 0]
    assert next_slot == (1, "flaky: attempt 1: failing on purpose, as this job does 2 times\n")
    assert other == (0, "attempt 1: succeeded after 0 failures\n")


def test_slow_tells_how_far_it_is(data: Path) -> None:
    assert handle("slow", data, duration="1s", steps=2) == (0, "step 1 of 2\nstep 2 of 2\nslept 1 s in 2 steps\n")


def test_slow_ends_in_order_when_asked_to(data: Path) -> None:
    with subprocess.Popen(
        child_argv("slow"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"RECONCILER_DATA": str(data)},
        encoding="utf-8",
    ) as slow:
        assert slow.stdin
        assert slow.stdout
        slow.stdin.write('{"duration": "1h", "steps": 3600}')
        slow.stdin.close()
        first = slow.stdout.readline()
        slow.terminate()
        rest = slow.stdout.read()

    assert (first, rest) == ("step 1 of 3600\n", "slow: stopped in step 2 of 3600\n")
    assert slow.returncode == 1


@pytest.mark.parametrize(
    ("name", "payload"),
    [("report-generator", {"rows": "many"}), ("csv-transform", {}), ("slow", {"duration": "soon"})],
)
def test_a_payload_that_does_not_fit_is_no_stack_trace(data: Path, name: str, payload: dict[str, Any]) -> None:
    code, printed = handle(name, data, **payload)

    assert code == 64
    assert printed.startswith(f"{name}: ")
    assert "Traceback" not in printed


def test_a_handler_starts_without_the_parts_it_does_not_need() -> None:
    listing = subprocess.run(
        [sys.executable, "-I", "-c", "import reconciler.worker.handlers.__main__, sys; print(*sys.modules)"],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=True,
    ).stdout.split()

    assert not {"sqlalchemy", "structlog", "jsonschema", "click", "rich", "yaml"} & set(listing)
