"""Bytes of jobs as lines of text, whatever the bytes and however they were read."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.worker.text import LONGEST_LINE_BYTES, Lines, clean, each_line, show_controls


def lines(*chunks: bytes) -> list[bytes]:
    """The lines of what was read in these chunks."""
    stream = Lines()
    blocks = [block for chunk in chunks for block in stream.add(chunk)] + stream.end()
    return [line for block in blocks for line, _ in each_line(block)]


def test_line_ends_of_any_kind_stay_lines_and_other_controls_become_escapes() -> None:
    assert clean(b"a\r\nb\tc\x1b[31m\x07\x7f\rd") == "a\nb\tc\\x1b[31m\\x07\\x7f\\x0dd"


def test_halves_of_surrogate_pairs_which_no_database_takes_become_escapes() -> None:
    assert show_controls("x\ud800y") == "x\\ud800y"


def test_lines_are_given_when_they_are_whole_and_the_last_one_at_the_end() -> None:
    stream = Lines()

    assert [stream.add(chunk) for chunk in (b"on", b"e\ntwo\nth", b"ree")] == [[], [b"one\ntwo\n"], []]
    assert stream.end() == [b"three"]
    assert stream.end() == []


def test_an_empty_line_is_a_line_and_a_line_end_of_two_bytes_may_be_split() -> None:
    assert lines(b"a\n\nb\r", b"\nc\n") == [b"a", b"", b"b", b"c"]


@pytest.mark.case("PRC-06")
def test_a_character_that_is_split_over_reads_and_bytes_that_are_none_are_shown() -> None:
    euro = "€".encode()

    assert [clean(line) for line in lines(b"1 " + euro[:1], euro[1:2], euro[2:] + b"!\na\200\262\377\000b\n")] == [
        "1 €!",
        "a���\\x00b",
    ]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("step", [1000, 16_384, 65_536, 10**6])
def test_a_line_that_is_too_long_becomes_several(line_end: bytes, step: int) -> None:
    whole = b"x" * (3 * LONGEST_LINE_BYTES + 5) + line_end + b"next"

    found = lines(*(whole[at : at + step] for at in range(0, len(whole), step)))

    assert list(map(len, found[:3])) == [LONGEST_LINE_BYTES] * 3
    assert b"".join(found) == whole.replace(line_end, b"")


def test_a_line_of_just_the_longest_length_is_one_line() -> None:
    assert lines(b"x" * LONGEST_LINE_BYTES + b"\n") == lines(b"x" * LONGEST_LINE_BYTES) == [b"x" * LONGEST_LINE_BYTES]


@pytest.mark.parametrize("shift", range(8))
def test_the_cut_of_a_long_line_never_breaks_a_character(shift: int) -> None:
    whole = "x" * shift + "aé€🙂" * 10_000

    found = [clean(line) for line in lines(whole.encode())]

    assert len(found) > 5
    assert "".join(found) == whole


@given(st.lists(st.binary(max_size=40).map(lambda part: part.replace(b"\r", b"")), max_size=8))
def test_no_byte_is_lost_or_doubled_however_it_is_read(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)

    assert lines(*chunks) == lines(whole)
    assert b"\n".join(lines(*chunks)) == whole.removesuffix(b"\n")


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_any_bytes_become_text_that_every_store_and_terminal_takes(whole: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})

    for line in lines(*(whole[begin:end] for begin, end in pairwise(edges))):
        text = clean(line)
        assert text.encode().decode() == text
        assert all(letter == "\t" or ord(letter) >= 0x20 for letter in text)
