"""Numbers of things, as people say them."""

import pytest

from reconciler.words import count


@pytest.mark.parametrize(("number", "words"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (12_000, "12,000 runs")])
def test_one_is_one_and_everything_else_is_several(number: int, words: str) -> None:
    assert count(number, "run") == words
