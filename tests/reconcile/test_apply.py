"""One pass over a source (invariants G1-G7, G9) on both databases, with real files."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import update

from reconciler.model.run import AttemptOutcome, RunState
from reconciler.store import claims, queries
from reconciler.store.passes import PassState
from reconciler.store.tables import definition_versions
from tests.reconcile.cast import Committer, document


def test_what_is_declared_is_created_with_its_triggers(committer: Committer) -> None:
    committer.declare("Queue", "reports")
    committer.write("report", triggers=[{"cron": "0 7 * * *"}], queue="reports", priority=7)

    ended = committer.apply()

    report = committer.live()["report"]
    assert ended.state is PassState.APPLIED
    assert (report.generation, report.queue, report.file, report.source) == (1, "reports", "report.yaml", "default")


def test_applying_twice_changes_nothing(committer: Committer) -> None:
    """G1."""
    committer.write("report")
    committer.apply()
    before = committer.live()

    ended = committer.apply()

    assert ended.state is PassState.UNCHANGED
    assert committer.live() == before


def test_an_edit_is_a_new_generation_of_the_same_definition(committer: Committer) -> None:
    committer.write("report")
    committer.apply()
    uid = committer.live()["report"].uid
    committer.write("report", priority=8)

    committer.apply()

    report = committer.live()["report"]
    assert (report.uid, report.generation, report.document["spec"]["priority"]) == (uid, 2, 8)


def test_moving_a_file_is_no_change(committer: Committer) -> None:
    """G9."""
    committer.write("report", triggers=[{"every": "1h"}])
    committer.apply()
    committer.remove("report")
    committer.put("reports/daily.yml", "# moved\n" + document("report", triggers=[{"every": "1h"}]))

    ended = committer.apply()

    report = committer.live()["report"]
    assert ended.state is PassState.APPLIED
    assert (report.generation, report.file, report.line) == (1, "reports/daily.yml", 2)


def test_a_pruned_job_keeps_its_history_and_a_new_one_of_its_name_is_another(committer: Committer) -> None:
    """G6."""
    committer.write("report")
    committer.apply()
    uid = committer.live()["report"].uid
    run_id = committer.store.trigger("report")
    node = committer.store.node("a")
    committer.store.finish(node, committer.store.claim(node)[0])
    committer.write("other")
    committer.remove("report")
    committer.apply()
    assert "report" not in committer.live()

    committer.write("report")
    committer.apply()

    assert committer.live()["report"].uid != uid
    assert committer.store.run(run_id).state is RunState.SUCCEEDED


def test_pruning_cancels_what_waits_and_lets_what_runs_finish(committer: Committer) -> None:
    committer.write("report")
    committer.write("other")
    committer.apply()
    node = committer.store.node("a")
    running = committer.store.trigger("report")
    (claim,) = committer.store.claim(node)
    waiting = committer.store.trigger("report")
    committer.remove("report")

    committer.apply()

    assert committer.store.run(waiting).state is RunState.CANCELLED
    assert committer.store.run(running).state is RunState.RUNNING
    assert committer.store.finish(node, claim)
    assert committer.store.run(running).state is RunState.SUCCEEDED


def test_on_delete_cancel_asks_the_node_to_stop(committer: Committer) -> None:
    committer.write("report", onDelete="Cancel")
    committer.write("other")
    committer.apply()
    node = committer.store.node("a")
    run_id = committer.store.trigger("report")
    (claim,) = committer.store.claim(node)
    committer.remove("report")

    committer.apply()

    asked = committer.store.database.read(lambda tx: claims.cancels_requested(tx, node))
    assert asked == {run_id}
    assert committer.store.finish(node, claim, AttemptOutcome.CANCELLED)
    assert committer.store.run(run_id).state is RunState.CANCELLED


def test_an_unreadable_file_withholds_pruning_and_applies_the_rest(committer: Committer) -> None:
    """A rename plus a syntax error in one commit deletes nothing."""
    committer.write("old-name")
    committer.write("other")
    committer.apply()
    committer.remove("old-name")
    committer.put("new-name.yaml", "apiVersion: reconciler/v1\nkind: Job\nmetadata: {name: new-name\n")
    committer.write("other", priority=9)

    ended = committer.apply()

    assert ended.state is PassState.INVALID
    assert {name: each.generation for name, each in committer.live().items()} == {"old-name": 1, "other": 2}
    assert "PruneWithheld" in (committer.live()["old-name"].condition or "")
    committer.put("new-name.yaml", document("new-name"))
    assert committer.apply().state is PassState.APPLIED
    assert set(committer.live()) == {"new-name", "other"}


def test_a_rename_whose_new_file_is_invalid_deletes_nothing(committer: Committer) -> None:
    committer.write("old-name")
    committer.write("other")
    committer.apply()
    committer.remove("old-name")
    committer.put("new-name.yaml", document("new-name", priorty=3))

    ended = committer.apply()

    assert ended.state is PassState.INVALID
    assert set(committer.live()) == {"old-name", "other"}


@pytest.mark.case("GIT-03")
def test_broken_files_keep_their_last_good_version_and_the_others_apply(committer: Committer) -> None:
    for number in range(9):
        committer.write(f"job-{number}")
    committer.apply()
    committer.put("job-0.yaml", "kind: [")
    committer.put("job-1.yaml", document("job-1", priority=77))
    committer.put("job-2.yaml", document("job-2", handler={"type": "teleport"}))
    committer.write("job-3", priority=1)
    committer.write("job-4", priority=2)
    committer.write("job-9")

    ended = committer.apply()

    live = committer.live()
    assert ended.state is PassState.INVALID
    assert len(live) == 10
    assert [live[f"job-{number}"].generation for number in range(10)] == [1, 1, 1, 2, 2, 1, 1, 1, 1, 1]
    broken = {problem["file"].rsplit("/", 1)[1] for problem in ended.report["problems"]}
    assert broken == {"job-0.yaml", "job-1.yaml", "job-2.yaml"}
    assert [name for name, each in live.items() if each.condition] == ["job-0", "job-1", "job-2"]


def test_a_mended_file_clears_its_condition(committer: Committer) -> None:
    committer.write("report")
    committer.apply()
    committer.put("report.yaml", document("report", priority=77))
    committer.apply()
    assert committer.live()["report"].condition

    committer.write("report")
    committer.apply()

    assert committer.live()["report"].condition is None
    assert committer.live()["report"].generation == 1


def test_a_folder_that_cannot_be_read_deletes_nothing(committer: Committer) -> None:
    """A file where the folder was: unreadable for root, too."""
    committer.write("report")
    committer.apply()
    shutil.rmtree(committer.folder)
    committer.folder.write_text("not a folder")

    assert committer.apply().state is PassState.REFUSED
    assert set(committer.live()) == {"report"}


def test_another_source_neither_prunes_nor_takes_over(committer: Committer, tmp_path: Path) -> None:
    """G7."""
    committer.write("report")
    committer.apply()
    other = tmp_path / "other.d"
    other.mkdir()
    (other / "a.yaml").write_text(document("report"))
    (other / "b.yaml").write_text(document("mine"))

    ended = committer.apply(committer.applier_of(other, name="second"))

    assert ended.state is PassState.INVALID
    assert ended.report["problems"][0]["rule"] == "name.owned"
    assert {name: each.source for name, each in committer.live().items()} == {"report": "default", "mine": "second"}


def test_a_source_read_from_another_path_is_refused_unless_it_moved(committer: Committer, tmp_path: Path) -> None:
    committer.write("report")
    committer.apply()
    other = tmp_path / "elsewhere"
    shutil.copytree(committer.folder, other)

    refused = committer.apply(committer.applier_of(other))
    moved = committer.apply(committer.applier_of(other, moved=True))

    assert refused.state is PassState.REFUSED
    assert "--source-moved" in refused.reason
    assert moved.state is PassState.APPLIED


def test_another_plan_than_the_expected_one_is_refused(committer: Committer) -> None:
    committer.write("report")

    ended = committer.apply(expect_digest="0" * 64)

    assert ended.state is PassState.REFUSED
    assert committer.live() == {}


def test_a_leader_that_lost_its_term_mid_pass_changes_nothing(committer: Committer) -> None:
    """G3, L2: whole old or whole new."""
    committer.write("report")
    committer.apply()
    committer.write("report", priority=9)
    old = committer.store.term
    committer.store.clock.turn(16)
    committer.store.lead("leader-b")

    with pytest.raises(Exception, match="lost term"):
        committer.applier.run(old)

    assert committer.live()["report"].generation == 1


def test_runs_keep_the_generation_they_were_made_from(committer: Committer) -> None:
    committer.write("report")
    committer.apply()
    run_id = committer.store.trigger("report")
    committer.write("report", priority=9)
    committer.apply()

    assert committer.store.run(run_id).generation == 1
    assert committer.store.run(committer.store.trigger("report")).generation == 2


def test_what_was_done_stands_in_the_audit(committer: Committer) -> None:
    """A1."""
    committer.write("report")
    committer.apply()
    committer.store.trigger("report")

    actions = committer.store.database.read(lambda tx: [row.action for row in queries.audited(tx, limit=10)])

    assert actions == ["run.created", "revision.applied"]


def test_a_malformed_row_of_the_store_stops_neither_its_neighbours_nor_its_own_repair(committer: Committer) -> None:
    """X2."""
    for name in ("bad", "gone", "good"):
        committer.write(name)
    committer.apply()
    committer.store.database.tx(lambda tx: tx.execute(update(definition_versions).values(document="[")))
    committer.remove("gone")
    committer.write("bad", priority=1)
    committer.write("new")

    ended = committer.apply()

    assert ended.state is PassState.APPLIED
    assert {name: each.generation for name, each in committer.live().items()} == {"bad": 2, "good": 2, "new": 1}
