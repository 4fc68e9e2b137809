"""What an operator's settings change in a pass."""

from datetime import datetime

from reconciler.clock import SECOND_US, to_us
from reconciler.model.definition import job_from
from reconciler.plan.guard import DeletionRule
from reconciler.store import definitions
from reconciler.store.passes import PassState
from tests.reconcile.cast import Committer

HOUR_US = 3600 * SECOND_US


def next_fires(committer: Committer, name: str) -> list[int | None]:
    wanted = committer.live()[name].id
    found = committer.store.database.read(lambda tx: definitions.triggers_of(tx, [wanted]))
    return [each.next_fire_us for each in found]


def test_triggers_without_a_zone_fire_in_the_default_one_and_say_so_to_every_node(committer: Committer) -> None:
    committer.write("local", triggers=[{"cron": "30 7 * * *"}])
    committer.write("named", triggers=[{"cron": "30 7 * * *", "timeZone": "UTC"}])
    committer.write("pulse", triggers=[{"every": "1h"}])

    committer.apply(committer.applier_of(committer.folder, time_zone="Europe/Berlin"))

    midnight = committer.store.clock.at_us
    assert next_fires(committer, "local") == [midnight + 13 * HOUR_US // 2]
    assert next_fires(committer, "named") == [midnight + 15 * HOUR_US // 2]
    (trigger,) = job_from(committer.live()["local"].document).triggers
    assert trigger.timing_document["timeZone"] == "Europe/Berlin"


def test_another_default_zone_is_a_new_generation_of_those_that_name_none_and_of_no_others(
    committer: Committer,
) -> None:
    committer.write("local", triggers=[{"cron": "30 7 * * *"}])
    committer.write("named", triggers=[{"cron": "30 7 * * *", "timeZone": "UTC"}])
    committer.apply()
    before = committer.live()

    ended = committer.apply(committer.applier_of(committer.folder, time_zone="Asia/Tokyo"))
    again = committer.apply(committer.applier_of(committer.folder, time_zone="Asia/Tokyo"))

    after = committer.live()
    assert ended.report["updated"] == ["local"]
    assert again.state is PassState.UNCHANGED
    assert (after["local"].generation, after["named"].generation) == (2, 1)
    assert after["local"].digest == before["local"].digest  # what is declared did not change
    fires_at = to_us(datetime.fromisoformat("2026-01-01T22:30:00Z"))
    assert next_fires(committer, "local") == [fires_at]


def test_the_share_of_deletions_that_pass_is_a_setting(committer: Committer) -> None:
    for number in range(4):
        committer.write(f"job-{number}")
    committer.apply()
    committer.remove("job-0", "job-1")

    assert committer.apply().state is PassState.REFUSED
    assert (
        committer.apply(committer.applier_of(committer.folder, deletions=DeletionRule(50))).state is PassState.APPLIED
    )
