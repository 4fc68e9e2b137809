"""Words that the tests of the settings share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

Shown = Callable[..., dict[str, dict[str, Any]]]
TOKEN = "a-long-and-random-scrape-token"


def write(text: str, name: str = "reconciler.yaml") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
