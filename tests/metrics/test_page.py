"""The page on metrics lists every series there is, with its labels, and no other."""

import re
from pathlib import Path

from prometheus_client import Metric

from reconciler.metrics.exposition import Exposition
from tests.store.cast import Store, job

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
ON_POSTGRESQL = {"store_oldest_xmin_age_seconds", "store_run_dead_tuples"}
OF_BOTH = {"build_info", "tzdata_info", "metrics_truncated"}


def name_of(family: Metric) -> str:
    name = family.name.removeprefix("reconciler_")
    return f"{name}_total" if family.type == "counter" else name


def test_the_page_lists_every_series(store: Store) -> None:
    store.apply(job("pulse", every="1h"))
    exposition = Exposition().of_leader(store.database, store.clock, on_time_seconds=20.0).of_worker(lambda: 0)
    shown = {name_of(family) for family in exposition.registry.collect()}
    exposition.close()

    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)} - {"serve", "worker"}
    assert listed | OF_BOTH == shown | ON_POSTGRESQL


def test_the_page_names_no_series_in_its_alerts_that_does_not_exist() -> None:
    alerts = set(re.findall(r"reconciler_(\w+)", PAGE.split("## What to alert on")[1]))
    rows = set(re.findall(r"`([a-z_]+)`", PAGE.split("## What to alert on")[0]))

    assert alerts
    assert alerts <= rows
