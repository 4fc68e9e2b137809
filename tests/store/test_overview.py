"""What the status shows, on both databases."""

from reconciler.model.run import AttemptOutcome, RunState
from reconciler.store import definitions, overview, queries, queue_views
from reconciler.store.overview import Fire
from reconciler.store.queue_views import Queue
from tests.store.cast import Store, job
from tests.turned import START_US

SECOND = 1_000_000


def ids(store: Store) -> dict[str, int]:
    return {each.name: each.id for each in store.database.read(lambda tx: definitions.listed(tx, limit=100))}


def test_queues_show_who_waits_since_when_and_which_handlers_nobody_offers(store: Store) -> None:
    store.apply(job("a", queue="reports"), job("b", queue="reports", handler={"type": "flaky"}), job("c", queue="lone"))
    node = store.node("reporter", queues=["reports", "spare"])
    store.trigger("a")
    store.clock.turn(10)
    store.trigger("a")
    store.claim(node)
    store.trigger("c")

    found = store.database.read(queue_views.listed)

    oldest_us = START_US + 10 * SECOND
    assert found == [
        Queue(
            "lone", 1, waiting=1, later=0, running=0, oldest_due_us=oldest_us, slots=0, workers=[], unserved=["slow"]
        ),
        Queue("reports", 2, 1, 0, 1, oldest_due_us=oldest_us, slots=4, workers=["reporter"], unserved=["flaky"]),
        Queue("spare", 0, 0, 0, 0, oldest_due_us=None, slots=4, workers=["reporter"], unserved=[]),
    ]
    assert store.database.read(overview.held_by_node) == {node.node_id: 1}


def test_a_session_that_is_over_serves_nothing(store: Store) -> None:
    store.apply(job("a"))
    store.node("gone")
    store.clock.turn(31)

    (queue,) = store.database.read(queue_views.listed)

    assert (queue.slots, queue.workers, queue.unserved) == (0, [], ["slow"])


def test_a_job_fails_until_its_newest_run_succeeds(store: Store) -> None:
    store.apply(job("shaky"), job("sound"))
    node = store.node("node")
    run_id = 0
    for outcome in (AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED):
        run_id = store.trigger("shaky")
        store.finish(node, store.claim(node)[0], outcome)
        store.clock.turn(1)

    ((name, last),) = store.database.read(lambda tx: overview.failing(tx, limit=10))
    records = store.database.read(lambda tx: overview.records_of(tx, list(ids(store).values())))

    assert (name, last.run_id, last.state) == ("shaky", run_id, RunState.FAILED)
    shaky, sound = (records[ids(store)[each]] for each in ("shaky", "sound"))
    assert shaky.last_run == last
    assert shaky.last_success is not None
    assert shaky.last_success.run_id == run_id - 1
    assert (sound.last_run, sound.last_success, sound.previous_slot_us) == (None, None, None)
    assert store.database.read(lambda tx: overview.ended_counts(tx, START_US)) == {
        RunState.FAILED: 2,
        RunState.SUCCEEDED: 1,
    }


def test_the_previous_fire_is_the_newest_slot_that_came_whatever_became_of_it(store: Store) -> None:
    store.apply(job("pulse", every="10s"))
    store.clock.turn(10)
    store.settle()

    def previous() -> int | None:
        return store.database.read(lambda tx: overview.records_of(tx, [ids(store)["pulse"]]))[
            ids(store)["pulse"]
        ].previous_slot_us

    assert previous() == START_US + 10 * SECOND
    node = store.node("node")
    store.finish(node, store.claim(node)[0])
    assert previous() == START_US + 10 * SECOND
    store.apply(job("pulse", every="10s", suspend=True))
    store.clock.turn(10)
    store.settle()
    assert previous() == START_US + 20 * SECOND


def test_what_fires_next_leaves_out_the_suspended(store: Store) -> None:
    store.apply(job("later", every="1h"), job("soon", every="1m"), job("never", every="5s", suspend=True))

    assert store.database.read(lambda tx: overview.next_fires(tx, limit=5)) == [
        Fire("soon", "default", START_US + 60 * SECOND),
        Fire("later", "default", START_US + 3600 * SECOND),
    ]
    assert store.database.read(overview.definition_counts) == {("Job", "Active"): 2, ("Job", "Suspended"): 1}


def test_runs_carry_the_revision_they_were_made_from(store: Store) -> None:
    store.apply(job("a"))
    run_id = store.trigger("a")

    assert store.run(run_id).revision == "r1"
    (listed,) = store.database.read(lambda tx: queries.runs_listed(tx, limit=5, queue="default"))
    assert listed.id == run_id
    assert store.database.read(lambda tx: queries.runs_listed(tx, limit=5, queue="other")) == []


def test_the_engine_tells_what_our_promises_hang_on(sqlite_store: Store, postgres_store: Store) -> None:
    embedded = sqlite_store.database.read(lambda tx: tx.facts())
    server = postgres_store.database.read(lambda tx: tx.facts())

    assert (embedded["journal_mode"], embedded["synchronous"]) == ("wal", "2")
    assert int(server["server_version_num"]) >= 150_000
    assert {"fsync", "full_page_writes", "synchronous_commit", "max_connections", "connections", "tls"} <= server.keys()
