import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.clock import SystemClock
from reconciler.worker.output import HEAD_BYTES, TAIL_BYTES, Captured, Output, Reader
from tests.worker.logs import run_log, texts
from tests.worker.waiting import until


def captured(*chunks: bytes) -> str:
    output = Captured()
    for chunk in chunks:
        output.add(chunk)
    return output.text()


@pytest.mark.case("PRC-06")
def test_bytes_that_are_no_text_are_shown_and_nothing_after_them_is_lost() -> None:
    text = captured(b"a\200\262\377\000b\n", b"end\n")

    assert text == "a���\\x00b\nend\n"


@pytest.mark.case("PRC-06")
def test_a_character_that_is_split_over_two_reads_is_whole() -> None:
    euro = "€".encode()

    assert captured(b"1 " + euro[:1], euro[1:2], euro[2:] + b"!") == "1 €!"


def test_output_within_the_bounds_is_kept_whole() -> None:
    everything = b"x" * (HEAD_BYTES + TAIL_BYTES)

    assert captured(everything) == everything.decode()


def test_a_flood_keeps_its_beginning_and_its_end_and_says_how_much_is_missing() -> None:
    text = captured(b"begin ", *[b"x" * 65_536] * 20, b" end")

    beginning, marker, end = text.split("\n")
    assert (beginning[:6], end[-4:]) == ("begin ", " end")
    assert len(beginning) == HEAD_BYTES
    assert len(end) == TAIL_BYTES
    assert marker == f"[reconciler: {20 * 65_536 + 10 - HEAD_BYTES - TAIL_BYTES:,} bytes left out]"


@pytest.mark.parametrize("shift", range(20))
def test_the_cut_never_breaks_a_character_and_the_count_stays_exact(shift: int) -> None:
    whole = ("x" * shift + "aé€🙂" * 15_000).encode()
    step = 1000 + 37 * shift

    chunks = [whole[at : at + step] for at in range(0, len(whole), step)]
    beginning, marker, end = captured(*chunks).split("\n")

    assert "�" not in beginning + end
    assert whole.startswith(beginning.encode())
    assert whole.endswith(end.encode())
    left_out = len(whole) - len(beginning.encode()) - len(end.encode())
    assert marker == f"[reconciler: {left_out:,} bytes left out]"


@contextmanager
def reading() -> Iterator[tuple[Output, int, int]]:
    """An output that is read, and the ends for stdout and stderr."""
    reader = Reader(lambda: None, clock=SystemClock())
    output, (stdout, stderr) = reader.open(run_log())
    yield output, stdout, stderr
    reader.close()


@pytest.mark.timeout(20)
def test_a_writer_is_never_held_up_and_the_reader_tells_the_end() -> None:
    woken: list[bool] = []
    reader = Reader(lambda: woken.append(True), clock=SystemClock())
    output, ends = reader.open(run_log())

    for end in ends:
        for _ in range(200):
            os.write(end, b"y" * 65_536)
        assert not output.has_ended
        os.close(end)

    until(lambda: output.has_ended)
    until(lambda: woken == [True])
    assert output.captured.text().endswith("y")
    reader.close()


@pytest.mark.timeout(20)
def test_both_streams_stand_in_the_output_in_the_order_of_reading_and_lines_stay_whole() -> None:
    with reading() as (output, stdout, stderr):
        os.write(stdout, b"one\nhalf a ")
        until(lambda: output.captured.text() == "one\n")
        os.write(stderr, b"two\n")
        until(lambda: output.captured.text() == "one\ntwo\n")
        os.write(stdout, b"line\nthe end")
        os.close(stdout)
        os.close(stderr)
        until(lambda: output.has_ended)

    assert output.captured.text() == "one\ntwo\nhalf a line\nthe end"
    assert texts(output.log) == ["stdout one", "stderr two", "stdout half a line", "stdout the end"]


@pytest.mark.timeout(20)
def test_an_output_that_somebody_else_keeps_open_can_be_given_up() -> None:
    reader = Reader(lambda: None, clock=SystemClock())
    output, (stdout, stderr) = reader.open(run_log())
    os.write(stdout, b"whole\npartial")
    os.close(stderr)
    until(lambda: output.captured.text() == "whole\n")

    reader.give_up(output)

    until(lambda: output.has_ended)
    assert output.captured.text() == "whole\npartial"
    with pytest.raises(BrokenPipeError):
        os.write(stdout, b"more")
    os.close(stdout)
    reader.close()
