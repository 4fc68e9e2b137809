"""What is kept of a log, however much is printed: its beginning at once, its end at the end, and what is missing."""

import re

import pytest

from reconciler.model.log import OutputStream
from reconciler.worker.lines import (
    BURST_BYTES,
    BYTES_PER_SECOND,
    FREE_BYTES,
    LINE_BYTES,
    PART_BYTES,
    PART_LINES,
    Allowance,
    RunLog,
)
from tests.turned import START_US, TurnedClock
from tests.worker.logs import run_log, texts

pytestmark = pytest.mark.timeout(20)

STDOUT, STDERR = OutputStream
LEFT_OUT = re.compile(r"\[reconciler: ([\d,]+) bytes in ([\d,]+) lines left out\]")


def numbered(begin: int, end: int, width: int = 100) -> bytes:
    """Lines that begin with their number."""
    return b"".join(f"{at}".ljust(width - 1).encode() + b"\n" for at in range(begin, end))


def ended(*blocks: bytes, allowance: Allowance | None = None) -> list[str]:
    """All that is kept of what was printed, without the names of the streams."""
    log = run_log(allowance)
    for block in blocks:
        log.add(STDOUT, START_US, block)
    log.end()
    return [text.partition(" ")[2] for text in texts(log)]


def test_lines_can_be_written_as_soon_as_they_are_read_and_are_numbered_over_both_streams() -> None:
    announced: list[RunLog] = []
    log = run_log(announce=announced.append)

    log.add(STDOUT, START_US, b"one\ntwo\n")
    log.add(STDERR, START_US + 5, b"three\n")
    taken = log.take(100, 100)
    log.add(STDOUT, START_US + 9, b"four\n")

    assert [(line.seq, line.stream, line.at_us - START_US, line.text) for line in taken + log.take(100, 100)] == [
        (1, "stdout", 0, "one"),
        (2, "stdout", 0, "two"),
        (3, "stderr", 5, "three"),
        (4, "stdout", 9, "four"),
    ]
    assert announced == [log, log]


def test_no_more_is_taken_than_asked_for_and_the_rest_waits() -> None:
    log = run_log()
    log.add(STDOUT, START_US, b"1234\n" * 10)

    assert [len(log.take(3, 10**6)), len(log.take(10**6, 8))] == [3, 2]
    assert (log.waiting, log.waiting_bytes) == (5, 20)


def test_a_log_within_the_bounds_is_whole_though_its_end_is_stored_last() -> None:
    lines = PART_BYTES // 100 * 2
    log = run_log()
    log.add(STDOUT, START_US, numbered(0, lines))
    at_once = log.waiting
    log.end()

    kept = texts(log)

    assert [int(line.split()[1]) for line in kept] == list(range(lines))
    assert lines // 2 <= at_once <= lines // 2 + 60


def test_of_a_flood_the_beginning_and_the_end_are_kept_and_one_line_says_what_is_missing() -> None:
    blocks = [numbered(at, at + 500) for at in range(0, 50_000, 500)]

    kept = ended(*blocks)

    (marker,) = (at for at, line in enumerate(kept) if LEFT_OUT.fullmatch(line))
    found = LEFT_OUT.fullmatch(kept[marker])
    assert found
    assert [int(line) for line in kept[:marker]] == list(range(marker))
    assert [int(line) for line in kept[marker + 1 :]] == list(range(50_000 - (len(kept) - marker - 1), 50_000))
    assert int(found[2].replace(",", "")) == 50_000 - len(kept) + 1
    assert int(found[1].replace(",", "")) == 100 * int(found[2].replace(",", ""))
    size = sum(len(line.encode()) for line in kept)
    assert 2 * PART_BYTES - 300 <= size <= 2 * PART_BYTES + len(kept[marker])


def test_short_lines_are_bounded_by_their_number() -> None:
    kept = ended(*[b"y\n" * 32_768] * 100)

    assert len(kept) == 2 * PART_LINES + 1
    assert kept[PART_LINES] == f"[reconciler: {2 * (n := 3_276_800 - 2 * PART_LINES):,} bytes in {n:,} lines left out]"


@pytest.mark.case("PRC-06")
def test_escapes_count_as_what_they_become() -> None:
    kept = ended(*[b"\0" * 16_384] * 200, b"end\n")

    assert kept[-1] == "end"
    assert sum(len(line) for line in kept) <= 2 * PART_BYTES + 100
    assert f"[reconciler: {(200 - 15) * 16_384:,} bytes left out]" in kept


def test_the_work_per_byte_of_a_flood_is_small_and_so_is_what_is_held_meanwhile() -> None:
    """Two gigabytes in seconds: a job that prints them waits for the pipe, not for us."""
    log, block = run_log(), b"y\n" * 32_768
    for _ in range(32_768):
        log.add(STDOUT, START_US, block)

    assert len(log._tail._blocks) == 1  # noqa: SLF001 - the point of the test


def test_many_tiny_reads_hold_no_more_than_the_lines_that_are_kept() -> None:
    log = run_log()
    for _ in range(10 * PART_LINES):
        log.add(STDOUT, START_US, b"\n")

    assert len(log._tail._blocks) == PART_LINES  # noqa: SLF001 - same


def test_a_node_whose_allowance_is_used_up_keeps_the_beginning_and_the_end_of_every_log() -> None:
    clock = TurnedClock()
    allowance = Allowance(clock)
    allowance.take_some(10 * BURST_BYTES)

    small = ended(numbered(0, 20), allowance=allowance)
    large = ended(numbered(0, 10_000), allowance=allowance)

    each = FREE_BYTES // (99 + LINE_BYTES)
    assert [int(line) for line in small] == list(range(20))
    assert [line.rstrip() for line in large] == [
        *map(str, range(each)),
        f"[reconciler: {100 * (10_000 - 2 * each):,} bytes in {10_000 - 2 * each:,} lines left out]",
        *map(str, range(10_000 - each, 10_000)),
    ]


def test_an_allowance_comes_back_with_time_and_never_grows_beyond_its_size() -> None:
    clock = TurnedClock()
    allowance = Allowance(clock)

    assert allowance.take(BURST_BYTES)
    assert not allowance.take(1)
    clock.turn(2)
    assert allowance.take_some(10 * BURST_BYTES) == 2 * BYTES_PER_SECOND
    clock.turn(10_000)
    assert allowance.take_some(10 * BURST_BYTES) == BURST_BYTES


def test_a_log_that_the_store_refused_holds_nothing_any_more() -> None:
    log = run_log()
    log.add(STDOUT, START_US, b"one\n")

    log.close()
    log.add(STDOUT, START_US, numbered(0, 50_000))
    log.end()

    assert (log.waiting, log.waiting_bytes, texts(log), len(log._tail._blocks)) == (0, 0, [], 0)  # noqa: SLF001 - same
