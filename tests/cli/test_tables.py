"""How answers are drawn."""

from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.cli import tables
from reconciler.clock import SystemClock
from reconciler.errors import StoreUnavailableError


def watch(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
    """Watch these answers, one a turn, and then interrupt."""
    turns: Iterator[Any] = iter([*answers, KeyboardInterrupt()])

    def draw() -> tuple[str, Any]:
        answer = next(turns)
        if isinstance(answer, BaseException):
            raise answer
        return f"drawn: {answer}", answer

    monkeypatch.setattr(SystemClock, "wait", lambda *_: False)
    with pytest.raises(KeyboardInterrupt):
        tables.watched(draw)


def test_who_watches_an_outage_sees_it_once_and_sees_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(monkeypatch, 1, StoreUnavailableError("away"), StoreUnavailableError("away"), 1)

    assert capsys.readouterr().out.splitlines() == ["drawn: 1", "error: away", "drawn: 1"]


def test_a_countdown_is_no_news(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    watch(
        monkeypatch,
        {"leader": {"term": 1, "expiresInSeconds": 9}},
        {"leader": {"term": 1, "expiresInSeconds": 8}},
        {"leader": {"term": 2, "expiresInSeconds": 9}},
    )

    assert capsys.readouterr().out.count("drawn") == 2


def test_nothing_in_a_cell_can_drive_a_terminal_or_break_a_line() -> None:
    drawn = tables.table([{"error": "\x1b[2Jgone\nnext\u202e", "queues": None}], ["error", "queues"])

    assert drawn.splitlines() == ["ERROR".ljust(16) + "QUEUES", " [2Jgone next   all"]


def test_names_of_columns_are_words() -> None:
    assert tables.table([{"nextFireTime": None}], ["nextFireTime"]).splitlines() == ["NEXT FIRE TIME", "-"]
