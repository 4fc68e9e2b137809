"""Files that are refused, and the exact reports about them.

`RECONCILER_GOLDEN=write pytest tests/spec` writes the reports anew; read the difference before committing it.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent
FILES = FOLDER / "files"
REPORTS = FOLDER / "reports"


def expected(name: str, report: str) -> str:
    """Give the stored report; with RECONCILER_GOLDEN=write, store this one first."""
    path = REPORTS / f"{name}.txt"
    if os.environ.get("RECONCILER_GOLDEN") == "write":
        path.write_text(f"{report}\n", encoding="utf-8")
    return path.read_text(encoding="utf-8").removesuffix("\n")
