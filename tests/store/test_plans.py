"""How the databases run the statements that are asked all day: through the partial indexes, never over a whole table.

The statements are those of the real functions, caught as they run, so no copy of them can go stale here.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from psycopg import sql
from sqlalchemy import Connection, event, insert, text

from reconciler.clock import SECOND_US
from reconciler.model.run import AttemptOutcome, Outcome, RunState
from reconciler.store import claims, places, queries, slots
from reconciler.store.queue_tables import places as places_table
from reconciler.store.tables import runs as runs_table
from reconciler.store.trigger_tables import triggers as triggers_table
from tests.store.cast import Store, job, queue
from tests.turned import START_US

MANY: Final = 10_000
CALLS: Final = 8
GONE: Final = 10**9
"""The id of a node that nobody knows any more."""
BIG: Final = frozenset({"runs", "triggers", "places"})
STATES: Final = [RunState.PENDING] * 60 + [RunState.SCHEDULED] * 37 + [RunState.RUNNING] * 3
"""A busy store: much waits, little is held."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as it reached the driver."""

    text: str
    parameters: Any


@dataclass(frozen=True, slots=True)
class Access:
    """How a plan gets at the rows of one table; `index` is empty when it reads all of them."""

    table: str
    index: str


Step = Callable[[Store], object]


def _finish_ten(store: Store) -> None:
    node = store.node("diligent")
    reports = [
        Outcome(each.run_id, each.fence, each.attempt, AttemptOutcome.SUCCEEDED, started_us=0, finished_us=1)
        for each in store.claim(node, 10)
    ]
    assert len(store.database.tx(lambda tx: claims.finish(tx, node, reports))) == 10


def _ask_for_cancels(store: Store) -> None:
    node = store.node("curious")
    store.database.read(lambda tx: claims.cancels_requested(tx, node))


STEPS: Final[dict[str, tuple[Step, str]]] = {
    "claim": (lambda store: store.claim(store.node("any"), 10), "ix_runs_ready"),
    "claim of one queue": (lambda store: store.claim(store.node("picky"), 10, queues=["default"]), "ix_runs_ready"),
    "finish": (_finish_ten, "pk_runs"),
    "promote": (lambda store: store.promote(), "ix_runs_sleeping"),
    "outlook on runs": (lambda store: store.database.read(slots.outlook), "ix_runs_sleeping"),
    "outlook on triggers": (lambda store: store.database.read(slots.outlook), "ix_triggers_next_fire_us"),
    "expired runs": (lambda store: store.expire(), "ix_runs_expires_us"),
    "reap": (lambda store: store.reap(), "ix_runs_held"),
    "due triggers": (lambda store: store.settle(), "ix_triggers_next_fire_us"),
    "cancels": (_ask_for_cancels, "ix_runs_held"),
}
"""What leaders and workers do all day, and the index that finds its rows."""


LIMITED: Final[dict[str, tuple[Step, str]]] = {
    "claim": (lambda store: store.claim(store.node("any"), 10), "ix_runs_ready"),
    "claim of one queue": (lambda store: store.claim(store.node("picky"), 10, queues=["default"]), "ix_runs_ready"),
    "reap": (lambda store: store.reap(), "ix_runs_held"),
}
"""The same where one queue is full with ten thousand runs waiting before all others, and another is suspended."""


@pytest.mark.parametrize("most_everywhere", [None, 1000])
def test_work_that_no_place_is_free_for_is_not_walked_over(store: Store, most_everywhere: int | None) -> None:
    """A full queue, or a suspended one, hides nothing behind it and costs a claim nothing."""
    _fill(store)
    store.apply(queue("full", max=3), queue("closed", suspend=True), queue("roomy", max=5000))
    store.apply(job("crowd", queue="full"), job("shut", queue="closed"))
    _crowd(store, "crowd", "shut")
    store.claim(store.node("holder"), 3, queues=["full"])
    store.database.tx(lambda tx: places.set_cap(tx, store.term, most_everywhere))

    caught = {name: _caught(store, step) for name, (step, _) in LIMITED.items()}
    plans = {name: [access for each in found for access in _planned(store, each)] for name, found in caught.items()}

    whole = {name: each for name, found in plans.items() for each in found if each.table in BIG and not each.index}
    unused = {name for name, (_, index) in LIMITED.items() if index not in {each.index for each in plans[name]}}
    assert not whole, "reads a whole table"
    assert not unused, "does not use its index"
    assert {each.queue for each in _claimed(store)} == {"default"}


def _crowd(store: Store, *names: str) -> None:
    """Let ten thousand runs of each job wait, all of them before whatever waits already."""
    for name in names:
        ((_, found),) = [each for each in store.live("Job") if each[1].name == name]
        with store.database.engine.begin() as connection:
            asks = text("SELECT requirement_id FROM definitions WHERE id = :id")
            requirement_id = connection.execute(asks, {"id": found.id}).scalar_one()
            rows = [
                {**_run(number, found.id, requirement_id, 0), "state": RunState.PENDING, "order_key": number}
                | {"fence": 0, "attempt": 0, "node_id": None}
                for number in range(MANY)
            ]
            connection.execute(insert(runs_table), rows)
            connection.execute(text("ANALYZE"))


def _claimed(store: Store) -> list[queries.RunRow]:
    node = store.node("taker")
    return [store.run(each.run_id) for each in store.claim(node, 10)]


def test_no_step_of_the_protocol_reads_a_whole_table(store: Store) -> None:
    _fill(store)

    statements = {name: _caught(store, step) for name, (step, _) in STEPS.items()}
    accesses = {
        name: [access for each in caught for access in _planned(store, each)] for name, caught in statements.items()
    }

    whole = {name: each for name, found in accesses.items() for each in found if each.table in BIG and not each.index}
    unused = {
        name: accesses[name]
        for name, (_, index) in STEPS.items()
        if index not in {each.index for each in accesses[name]}
    }
    assert not whole, "reads a whole table"
    assert not unused, "does not use its index"


def _fill(store: Store) -> None:
    """Ten thousand runs in every state, of ten thousand triggers, nearly all of them quiet; statistics are fresh."""
    store.apply(job("many"), job("due", every="10s"))
    (definition_id, requirement_id), node_id = _first_definition(store), store.node("busy").node_id
    store.clock.turn(11)
    with store.database.engine.begin() as connection:
        connection.execute(insert(triggers_table), [_trigger(number, definition_id) for number in range(MANY)])
        connection.execute(
            insert(runs_table), [_run(number, definition_id, requirement_id, node_id) for number in range(MANY)]
        )
        # Places of a queue that nobody here asks for: a table without rows is rightly read as a whole.
        of_another = [{"queue": "elsewhere", "number": number, "is_open": True} for number in range(MANY)]
        connection.execute(insert(places_table), of_another)
        connection.execute(text("ANALYZE"))


def _first_definition(store: Store) -> tuple[int, int]:
    with store.database.engine.begin() as connection:
        row = connection.execute(text("SELECT id, requirement_id FROM definitions ORDER BY id")).first()
        assert row is not None
        return row.id, row.requirement_id


def _trigger(number: int, definition_id: int) -> dict[str, Any]:
    return {
        "definition_id": definition_id,
        "name": f"t{number}",
        "timing": '{"every":"1d"}',
        "activation": 1,
        "activated_us": START_US,
        "cursor_us": START_US,
        "next_fire_us": START_US + (number + 60) * SECOND_US if number % 4 else None,
    }


def _run(number: int, definition_id: int, requirement_id: int, node_id: int) -> dict[str, Any]:
    state = STATES[number % len(STATES)]
    is_held = state is RunState.RUNNING
    return {
        "definition_id": definition_id,
        "generation": 1,
        "slot_us": START_US + number,
        "requirement_id": requirement_id,
        "priority": 5,
        "order_key": START_US + number,
        "due_us": START_US + number * SECOND_US,
        "state": state,
        "fence": int(is_held),
        "attempt": int(is_held),
        "node_id": (node_id if number % 2 else GONE) if is_held else None,
        "created_us": START_US,
        "created_by": "tests",
    }


def _caught(store: Store, step: Step) -> list[Statement]:
    """Run the step, and give its statements on the big tables."""
    caught: list[Statement] = []

    def catch(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        caught.append(Statement(statement, parameters))

    engines = {store.database.engine, store.database._reader}  # noqa: SLF001 - the door has no key for this
    for engine in engines:
        event.listen(engine, "before_cursor_execute", catch)
    try:
        step(store)
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", catch)
    return [each for each in caught if any(re.search(rf"\b(FROM|JOIN|UPDATE) {table}\b", each.text) for table in BIG)]


def _planned(store: Store, statement: Statement) -> Iterator[Access]:
    return _of_sqlite(store, statement) if store.database.is_sqlite else _of_postgres(store, statement)


def _of_sqlite(store: Store, statement: Statement) -> Iterator[Access]:
    with store.database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement.text}", statement.parameters).all()
    for *_, detail in plan:
        if match := re.match(
            r"(?:SCAN|SEARCH) (\w+)(?: USING (?:COVERING )?INDEX (\w+)| USING (INTEGER PRIMARY KEY))?", detail
        ):
            yield Access(match[1], match[2] or (f"pk_{match[1]}" if match[3] else ""))


def _of_postgres(store: Store, statement: Statement) -> Iterator[Access]:
    with store.database.engine.connect() as connection:
        yield from _accesses(_explained(connection, statement))


def _explained(connection: Connection, statement: Statement) -> Any:
    """Prepare the statement, as the driver does with what it sees often, and give the plan that PostgreSQL settles on.

    From the sixth call on that may be one made without knowing the values.
    """
    driver = connection.connection.driver_connection
    assert driver is not None
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement.text)))
    numbered = re.sub(r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", statement.text)
    given = sql.SQL(", ").join(sql.Literal(statement.parameters[name]) for name in names)
    driver.execute(sql.SQL("PREPARE explained AS {}").format(sql.SQL(numbered)))
    call = sql.SQL("explained({})").format(given) if names else sql.SQL("explained")
    explain = sql.SQL("EXPLAIN (FORMAT JSON) EXECUTE {}").format(call)
    plans = [driver.execute(explain).fetchone()[0] for _ in range(CALLS)]
    driver.execute("DEALLOCATE explained")
    return plans[-1][0]["Plan"]


def _accesses(plan: Any) -> Iterator[Access]:
    table, kind = plan.get("Relation Name", ""), plan["Node Type"]
    if kind == "Bitmap Index Scan":
        yield Access("", plan["Index Name"])
    elif table and kind not in {"ModifyTable", "Bitmap Heap Scan"}:
        is_walk = plan.get("Index Name") == f"pk_{table}" and "Index Cond" not in plan
        yield Access(table, "" if is_walk else plan.get("Index Name", ""))
    for below in plan.get("Plans", ()):
        yield from _accesses(below)
