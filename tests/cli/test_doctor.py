"""What `doctor` finds, and what it says to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.doctor import _server
from reconciler.cli.machine import Verdict
from reconciler.engine.zonedata import PLANNED_WITH
from reconciler.schedule.zones import tzdata_version
from reconciler.store import facts
from reconciler.store.database import Database

Ask = Callable[..., Any]


def test_doctor_names_what_is_missing_and_exits_0_while_everything_can_work(asked: Ask) -> None:
    found = {each["check"]: each for each in asked("doctor")["items"]}

    assert found["leader"]["verdict"] == "warn"
    assert "reconciler serve" in found["leader"]["mend"]
    assert found["workers"]["verdict"] == "warn"
    assert found["source default"]["what"] == "jobs.d: 3 valid definitions"
    assert "fail" not in {each["verdict"] for each in found.values()}


def test_doctor_exits_4_when_something_does_not_work(
    home: Path, asked: Ask, told: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_NODE_SLOT", "4")
    answer = asked("doctor", "--store", "postgresql://nobody:hush@127.0.0.1:1/x", code=4)

    assert not answer["ok"]
    assert [each["check"] for each in answer["items"] if each["verdict"] == "fail"] == ["store"]
    assert [each["what"] for each in answer["items"] if each["check"] == "variables"] == [
        "RECONCILER_NODE_SLOT names no setting"
    ]
    assert "hush" not in json.dumps(answer)
    (home / "reconciler.yaml").write_text("nod: {}")
    assert "reconciler.yaml:1:1" in told("doctor", code=4)


def test_doctor_minds_settings_of_a_server_that_break_promises() -> None:
    sound = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "server_version_num": "160004"}
    sound |= {"max_connections": "100", "connections": "5", "tls": "off"}

    def verdicts(**changed: str) -> dict[str, Verdict]:
        return {each.check: each.verdict for each in _server({**sound, **changed})}

    assert set(verdicts().values()) == {Verdict.OK}
    assert verdicts(fsync="off")["fsync"] is Verdict.WARN
    assert "synchronous_commit" not in verdicts(synchronous_commit="remote_apply")
    assert verdicts(synchronous_commit="off")["synchronous_commit"] is Verdict.WARN
    assert verdicts(server_version_num="140011")["postgresql"] is Verdict.FAIL
    assert verdicts(connections="90")["connections"] is Verdict.WARN


def test_doctor_names_nodes_with_other_time_zone_data(home: Path, asked: Ask, store_url: str) -> None:
    database = Database.open(store_url)
    database.tx(lambda tx: facts.note(tx, PLANNED_WITH, "1999z"))
    database.close()

    told = [each["what"] for each in asked("doctor")["items"] if each["check"] == "time zones"]

    assert f"slots are planned by 1999z; this machine has {tzdata_version()}" in told
