"""One malformed row never stops the others (invariant X2), on both databases."""

from sqlalchemy import select, update

from reconciler.model.run import AttemptOutcome, RunState
from reconciler.store.tables import definition_versions, definitions
from reconciler.store.trigger_tables import triggers
from tests.store.cast import Store, job


def test_a_trigger_that_makes_no_sense_does_not_stop_the_others(store: Store) -> None:
    store.apply(job("good", every="10s"), job("bad", every="10s"))
    of_bad = triggers.c.definition_id == select(definitions.c.id).where(definitions.c.name == "bad").scalar_subquery()
    store.database.tx(lambda tx: tx.execute(update(triggers).where(of_bad).values(timing="{}")))
    store.clock.turn(10)

    settled = store.settle()

    assert (len(store.runs("good")), len(store.runs("bad"))) == (1, 0)
    assert len(settled.broken) == 1
    assert not settled.more


def test_a_run_whose_version_is_malformed_still_ends(store: Store) -> None:
    store.apply(job("good", retry={"maxAttempts": 2}), job("bad", retry={"maxAttempts": 2}))
    good, bad = store.trigger("good"), store.trigger("bad")
    store.database.tx(
        lambda tx: tx.execute(
            update(definition_versions).where(definition_versions.c.document.contains("bad")).values(document="{")
        )
    )
    node = store.node("a")
    for claim in store.claim(node, 2):
        assert store.finish(node, claim, AttemptOutcome.FAILED)

    assert store.run(good).state is RunState.RETRYING
    assert store.run(bad).state is RunState.FAILED


def test_the_reaper_brings_back_a_run_whose_version_is_malformed(store: Store) -> None:
    store.apply(job("bad"))
    run_id = store.trigger("bad")
    store.claim(store.node("a"))
    store.database.tx(lambda tx: tx.execute(update(definition_versions).values(document="[]")))
    store.clock.turn(31)
    store.lead("leader-b")

    assert list(store.reap().put_back) == [run_id]
