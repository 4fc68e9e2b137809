"""A store of an older release keeps what it holds through an upgrade."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from reconciler.store import claiming, queue_views, runs, schema
from reconciler.store.database import Database
from tests.store.cast import Store, job, queue
from tests.turned import TurnedClock


@pytest.fixture
def older(store_url: str) -> Iterator[Database]:
    """A store as 0002 made it, with a job, a waiting run and one that is held."""
    clock = TurnedClock()
    database = Database.open(store_url, clock=clock, turned=True)
    with database.engine.begin() as connection:
        schema._migrate(connection, "0002")  # noqa: SLF001 - no command goes back in time
        for statement in HELD_BEFORE:
            connection.execute(text(statement))
    yield database
    database.close()


DOCUMENT = '{"apiVersion":"reconciler/v1","kind":"Job","metadata":{"name":"old"},"spec":{"handler":{"type":"slow"}}}'
RUN = """
    INSERT INTO runs (definition_id, generation, slot_us, requirement_id, priority, order_key, due_us, state, fence,
      attempt, node_id, created_us, created_by)
    VALUES (1, 3, {at}, 1, 5, {at}, 0, {held}, 0, 'tests')
"""
HELD_BEFORE = (
    "INSERT INTO requirements (queue, handler) VALUES ('reports', 'slow')",
    """
    INSERT INTO definitions (uid, kind, name, source, generation, observed_generation, digest, file, line, revision,
      suspended, requirement_id, priority, created_us, updated_us)
    VALUES ('uid-old', 'Job', 'old', 'default', 3, 3, 'd', 'old.yaml', 1, 'r', false, 1, 5, 0, 0)
    """,
    f"""
    INSERT INTO definition_versions (definition_id, generation, digest, document, revision, applied_us)
    VALUES (1, 3, 'd', '{DOCUMENT.replace(":", chr(92) + ":")}', 'r', 0)
    """,
    RUN.format(at=0, held="'Running', 1, 1, 99"),
    RUN.format(at=1, held="'Pending', 0, 0, NULL"),
    RUN.format(at=2, held="'Pending', 0, 0, NULL"),
)


def test_definitions_and_runs_are_kept_and_a_new_cap_counts_what_ran_before(older: Database) -> None:
    before, after = schema.upgrade(older)

    store = Store(older, TurnedClock())
    store.apply(queue("reports", max=2))
    node = store.node("a")
    claimed = older.tx(lambda tx: claiming.claim(tx, node, limit=10, handlers=["slow"], queues=None))
    (state,) = [each for each in older.read(queue_views.listed) if each.name == "reports"]

    assert (before, after) == ("0002", schema.head())
    assert [(key, each.generation) for key, each in store.live("Job")] == [(("Job", "old"), 3)]
    assert len(claimed) == 1
    assert (state.running, state.waiting) == (2, 1)


def test_ids_that_were_given_before_an_upgrade_are_not_given_again(older: Database) -> None:
    """Trap: a table that is made anew forgets the highest id it gave."""
    schema.upgrade(older)
    store = Store(older, TurnedClock())

    store.apply(job("new"))
    run_id = older.tx(lambda tx: runs.create(tx, "new", actor="tests"))[0]

    ids = {key: each.id for key, each in store.live("Job")}
    assert (ids["Job", "old"], ids["Job", "new"], run_id) == (1, 2, 4)
