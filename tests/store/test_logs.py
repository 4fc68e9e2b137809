"""The lines that jobs print: stored under session and fence, each once, in order, and read page by page."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError

from reconciler.errors import SessionLostError
from reconciler.model.lease import Session
from reconciler.model.log import LogLine, OutputStream
from reconciler.model.run import AttemptOutcome, Claim, Outcome, RunState
from reconciler.store import claims, logs
from reconciler.store.tables import run_logs
from tests.store.cast import LEASE_US, Store, job
from tests.turned import START_US

STDOUT, STDERR = OutputStream


def lines(held: Claim, *texts: str, begin: int = 1, stream: OutputStream = STDOUT) -> list[LogLine]:
    return [
        LogLine(held.run_id, held.fence, seq, stream, START_US + seq, text)
        for seq, text in enumerate(texts, start=begin)
    ]


def append(store: Store, node: Session, *batch: LogLine) -> set[logs.Hold]:
    return store.database.tx(lambda tx: logs.append(tx, node, batch))


def finish(store: Store, node: Session, held: Claim, *log: LogLine, result: AttemptOutcome) -> dict[int, RunState]:
    outcome = Outcome(held.run_id, held.fence, held.attempt, result, started_us=0, finished_us=1, log=log)
    return store.database.tx(lambda tx: claims.finish(tx, node, [outcome]))


def stored(store: Store, run_id: int, **options: Any) -> list[str]:
    found: Sequence[logs.LogRow] = store.database.read(
        lambda tx: logs.lines_of(tx, run_id, **{"limit": 1000, **options})
    )
    return [row.text for row in found]


def held_run(store: Store, node: Session) -> Claim:
    store.apply(job("report"))
    store.trigger("report")
    (held,) = store.claim(node)
    return held


def test_lines_of_many_runs_go_in_one_batch_and_each_run_gives_its_own_in_order(store: Store) -> None:
    node = store.node("a")
    store.apply(job("report"))
    for _ in range(3):
        store.trigger("report")
    held = store.claim(node, 3)

    batch = [line for each in held for line in lines(each, *(f"{each.run_id}/{at}" for at in range(400)))]
    accepted = append(store, node, *reversed(batch))

    assert accepted == {(each.run_id, 1) for each in held}
    for each in held:
        assert stored(store, each.run_id) == [f"{each.run_id}/{at}" for at in range(400)]


def test_a_line_says_when_where_and_on_which_attempt(store: Store) -> None:
    node = store.node("a")
    held = held_run(store, node)
    append(store, node, *lines(held, "one"), *lines(held, "two € \\x00", begin=2, stream=STDERR))

    rows = store.database.read(lambda tx: logs.lines_of(tx, held.run_id, limit=10))

    assert rows == [
        logs.LogRow(1, 1, 1, "a", STDOUT, START_US + 1, "one"),
        logs.LogRow(1, 2, 1, "a", STDERR, START_US + 2, "two € \\x00"),
    ]


def test_a_batch_that_is_repeated_since_its_answer_was_lost_stands_once(store: Store) -> None:
    node = store.node("a")
    held = held_run(store, node)
    first = append(store, node, *lines(held, "one", "two"))

    again = append(store, node, *lines(held, "one", "two", "three"))

    assert first == again == {(held.run_id, 1)}
    assert stored(store, held.run_id) == ["one", "two", "three"]


def test_a_stale_fence_changes_nothing_and_the_rest_of_its_batch_is_taken(store: Store) -> None:
    """I3."""
    node = store.node("a")
    stale = held_run(store, node)
    finish(store, node, stale, result=AttemptOutcome.HANDED_BACK)
    (fresh,) = store.claim(node)

    accepted = append(store, node, *lines(stale, "late"), *lines(fresh, "in time"))

    assert (stale.fence, fresh.fence) == (1, 2)
    assert accepted == {(fresh.run_id, 2)}
    assert stored(store, fresh.run_id) == ["in time"]


def test_lines_for_a_run_that_is_over_another_s_or_unknown_change_nothing(store: Store) -> None:
    """I3."""
    node, other = store.node("a"), store.node("b")
    over = held_run(store, node)
    store.finish(node, over)
    store.trigger("report")
    (theirs,) = store.claim(other)
    unknown = replace(theirs, run_id=999)

    assert append(store, node, *lines(over, "x"), *lines(theirs, "x"), *lines(unknown, "x")) == set()
    assert [stored(store, each.run_id) for each in (over, theirs, unknown)] == [[], [], []]


def test_a_session_that_is_over_appends_nothing_reaped_or_not(store: Store) -> None:
    """I3, I4."""
    node = store.node("a")
    held = held_run(store, node)
    append(store, node, *lines(held, "in time"))
    store.clock.turn(LEASE_US / 1_000_000)

    with pytest.raises(SessionLostError):
        append(store, node, *lines(held, "late", begin=2))
    store.reap()
    with pytest.raises(SessionLostError):
        append(store, node, *lines(held, "late", begin=2))

    assert stored(store, held.run_id) == ["in time"]


def test_somebody_who_does_not_know_the_secret_appends_nothing(store: Store) -> None:
    """I7."""
    node = store.node("a")
    held = held_run(store, node)

    with pytest.raises(SessionLostError):
        append(store, replace(node, secret="guessed"), *lines(held, "forged"))

    assert stored(store, held.run_id) == []


def test_the_last_lines_come_with_the_result_or_not_at_all(store: Store) -> None:
    node = store.node("a")
    held = held_run(store, node)
    append(store, node, *lines(held, "one"))

    accepted = finish(store, node, held, *lines(held, "two", begin=2), result=AttemptOutcome.SUCCEEDED)
    late = finish(store, node, held, *lines(held, "three", begin=3), result=AttemptOutcome.FAILED)

    assert (accepted, late) == ({held.run_id: RunState.SUCCEEDED}, {})
    assert stored(store, held.run_id) == ["one", "two"]


def test_a_reader_goes_on_after_what_it_has_seen_and_never_gets_more_than_it_asked_for(store: Store) -> None:
    node = store.node("a")
    first = held_run(store, node)
    finish(store, node, first, *lines(first, "1", "2", "3"), result=AttemptOutcome.HANDED_BACK)
    (second,) = store.claim(node)
    append(store, node, *lines(second, "4", "5"))

    pages, after = [], (0, -1)
    while page := store.database.read(lambda tx: logs.lines_of(tx, first.run_id, limit=2, after=after)):  # noqa: B023
        pages.append([row.text for row in page])
        after = (page[-1].fence, page[-1].seq)

    assert pages == [["1", "2"], ["3", "4"], ["5"]]


def test_a_reader_may_ask_for_one_attempt_or_one_stream(store: Store) -> None:
    node = store.node("a")
    store.apply(job("report", retry={"maxAttempts": 2, "backoff": "Fixed", "initial": "1s"}))
    store.trigger("report")
    (first,) = store.claim(node)
    finish(
        store,
        node,
        first,
        *lines(first, "out"),
        *lines(first, "err", begin=2, stream=STDERR),
        result=AttemptOutcome.FAILED,
    )
    store.clock.turn(2)
    store.promote()
    (second,) = store.claim(node)
    append(store, node, *lines(second, "again"))

    run_id = first.run_id
    assert stored(store, run_id) == ["out", "err", "again"]
    assert stored(store, run_id, attempt=1) == ["out", "err"]
    assert stored(store, run_id, attempt=2) == ["again"]
    assert stored(store, run_id, stream=STDERR) == ["err"]


def test_a_line_is_of_stdout_or_stderr(store: Store) -> None:
    row = {"run_id": 1, "fence": 1, "seq": 1, "attempt": 1, "node_id": 1, "stream": "stdlog", "at_us": 0, "text": ""}

    with pytest.raises(IntegrityError, match=r"(?i)check"), store.database.engine.begin() as connection:
        connection.execute(insert(run_logs).values(row))
