"""What a definition says of itself whose file is not applied: where, what, and how to mend it."""

import yaml

from tests.reconcile.cast import Committer, document


def condition(committer: Committer, name: str = "report", kind: str = "Job") -> str:
    committer.apply()
    return committer.live(kind)[name].condition or ""


def test_it_names_the_field_the_rule_and_the_remedy(committer: Committer) -> None:
    committer.write("report")
    committer.apply()
    committer.put("report.yaml", document("report") + "  priorty: 7\n")

    assert condition(committer) == (
        f'Degraded: {committer.folder}/report.yaml:10:3: spec.priorty: unknown field "priorty". '
        'Did you mean "priority"? (schema.unknown-field; the last good version goes on)'
    )


def test_of_several_problems_it_names_the_first_and_their_number(committer: Committer) -> None:
    committer.write("report")
    committer.apply()
    committer.put("report.yaml", document("report") + "  priority: 70\n  timeout: 0s\n")

    assert ":10:13: spec.priority: priority 70 is above 9" in condition(committer)
    assert "(schema.range, the first of 2 problems; the last good version goes on)" in condition(committer)


def test_what_the_reading_of_the_text_refused_is_named_too(committer: Committer) -> None:
    committer.write("report")
    committer.apply()
    committer.put("report.yaml", document("report") + "  priority: 7\n  priority: 8\n")

    assert 'report.yaml:11:3: the key "priority" is given twice' in condition(committer)
    assert "yaml.duplicate-key" in condition(committer)


def test_a_job_held_back_by_its_queue_points_at_the_queue(committer: Committer) -> None:
    committer.declare("Queue", "narrow", max=2)
    committer.write("report", queue="narrow")
    committer.apply()
    committer.declare("Queue", "narrow", max=0)

    assert "queue-narrow.yaml:" in condition(committer)
    assert "spec.max: max 0 is below 1" in condition(committer)
    assert condition(committer, "narrow", "Queue") == condition(committer)


def test_a_name_that_another_source_owns_says_so(committer: Committer) -> None:
    committer.write("report")
    committer.apply()
    theirs = committer.folder.parent / "theirs"
    theirs.mkdir()
    (theirs / "new.yaml").write_text(yaml.safe_dump(yaml.safe_load(document("report"))))

    ended = committer.apply(committer.applier_of(theirs, name="theirs"))

    assert 'belongs to source "default"' in str(ended.report["problems"])
    assert condition(committer) == ""


def test_what_cannot_be_pruned_names_the_first_error(committer: Committer) -> None:
    committer.write("report")
    committer.write("other")
    committer.apply()
    committer.put("report.yaml", "a: [")

    assert condition(committer).startswith("PruneWithheld: no longer declared, kept since files have errors (first: ")
    assert "report.yaml:2:1)" in condition(committer)
