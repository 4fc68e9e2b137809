"""What real processes show while they work: promtool finds nothing to complain of, and the figures are true."""

import json
import re
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.e2e.cluster import Cluster
from tests.metrics.promtool import check_metrics
from tests.metrics.scrape import series_of, value

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def address(cluster: Cluster, name: str, path: str) -> str:
    """Where a process says that it answers."""
    said = re.compile(rf"http://127\.0\.0\.1:\d+{path}")
    cluster.wait(lambda: said.search(cluster.log(name)), seconds=20)
    found = said.search(cluster.log(name))
    assert found is not None
    return found.group()


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urlopen(Request(url, headers=headers), timeout=10) as answer:  # noqa: S310 - our own address
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()


def test_a_working_installation_is_scraped_and_judged_by_promtool(cluster: Cluster) -> None:
    cluster.script("greet", "echo hello")
    cluster.script("doomed", "exit 3", retry={"maxAttempts": 2, "initial": "1s"})
    cluster.serve("leader", "--metrics", "127.0.0.1:0", "--listen", "127.0.0.1:0")
    cluster.worker("n1", "--metrics", "127.0.0.1:0")
    cluster.loaded("greet", "doomed")
    for name in ("greet", "doomed"):
        cluster.ended(cluster.trigger(name), seconds=30)
    of_leader, of_worker = address(cluster, "leader", "/metrics"), address(cluster, "n1", "/metrics")

    def scrapes() -> tuple[str, str]:
        return get(of_leader)[1], get(of_worker)[1]

    cluster.wait(lambda: value(scrapes()[0], "dead_letters") == 1, seconds=15)
    leader, worker = scrapes()
    for text in (leader, worker):
        judged = check_metrics(text)
        assert (judged.returncode, judged.stdout + judged.stderr) == (0, "")

    assert value(leader, "leader") == 1
    assert value(leader, "workers", state="Active") == 1
    assert value(leader, "definitions", kind="Job", state="Active") == 2
    assert (value(leader, "reconcile_last_success_timestamp_seconds", source="default") or 0) > 0
    assert value(leader, "retries_total") == 1
    assert value(worker, "runs_claimed_total") == 3
    assert value(worker, "runs_total", definition="greet", outcome="Succeeded") == 1
    assert value(worker, "attempts_total", definition="doomed", outcome="Failed") == 2
    assert value(worker, "runs_total", definition="doomed", outcome="DeadLettered") == 1
    assert value(worker, "schedule_lag_seconds_count") == 3
    assert (value(worker, "lease_renew_duration_seconds_count") or 0) > 0
    assert value(worker, "leases_held") == 0


def test_health_answers_on_leader_and_standby_alike(cluster: Cluster) -> None:
    cluster.script("greet", "echo hello")
    for name in ("first", "second"):
        cluster.serve(name, "--listen", "127.0.0.1:0")
    cluster.loaded("greet")

    urls = [address(cluster, name, "/health") for name in ("first", "second")]
    cluster.wait(lambda: all(get(f"{url}/ready")[0] == 200 for url in urls), seconds=15)
    told = [json.loads(get(url)[1]) for url in urls]

    assert [get(f"{url}/live") for url in urls] == [(200, '{"status": "live"}\n')] * 2
    assert sorted(each["is_leader"] for each in told) == [False, True]
    assert told[0]["leader"] == told[1]["leader"] is not None
    assert {each["loaded_definitions"] for each in told} == {1}
    assert [each["last_error"] for each in told] == [None, None]


def test_a_busy_port_is_refused_naming_the_flag_before_anything_runs(cluster: Cluster) -> None:
    cluster.serve("first", "--metrics", "127.0.0.1:0", "--listen", "127.0.0.1:0")
    taken = address(cluster, "first", "/metrics").split("/")[2]

    second = cluster.serve("second", "--metrics", taken)
    worker = cluster.start("worker", "worker", "--metrics", taken)

    assert (second.wait(20), worker.wait(20)) == (64, 64)
    for name in ("second", "worker"):
        assert f"cannot listen on {taken}" in cluster.log(name)
        assert "--metrics" in cluster.log(name)


def test_a_scrape_token_keeps_others_out(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_METRICS_TOKEN", "northstar-scrapes-this")
    cluster.serve("leader", "--metrics", "127.0.0.1:0")
    url = address(cluster, "leader", "/metrics")

    assert get(url)[0] == 401
    status, text = get(url, Authorization="Bearer northstar-scrapes-this")
    assert status == 200
    assert series_of(text)


def test_metrics_are_not_opened_to_other_machines_without_a_token(cluster: Cluster) -> None:
    leader = cluster.serve("leader", "--metrics", "0.0.0.0:0")

    assert leader.wait(20) == 64
    assert "metrics.tokenFile" in cluster.log("leader")
