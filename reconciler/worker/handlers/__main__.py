"""Run one demo handler: `python -m reconciler.worker.handlers TYPE`, payload as JSON on standard input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from typing import Any, Final

from reconciler.worker.handlers import cleanup, csv_transform, flaky, report, slow
from reconciler.worker.handlers.files import DataFolder, PayloadError, say

Handler = Callable[[Mapping[str, Any], DataFolder, Mapping[str, str]], str]
HANDLERS: Final[Mapping[str, Handler]] = {
    "cleanup": cleanup.run,
    "csv-transform": csv_transform.run,
    "flaky": flaky.run,
    "report-generator": report.run,
    "slow": slow.run,
}
_BAD_PAYLOAD: Final = 64


def main(name: str) -> int:
    """Run it; print one line of result on standard output, or of error on standard error."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be text
    try:
        data = DataFolder.open(os.environ["RECONCILER_DATA"])
        say(HANDLERS[name](json.load(sys.stdin), data, os.environ))
    except PayloadError as fault:
        return _fail(name, str(fault), _BAD_PAYLOAD)
    except (KeyError, TypeError, ValueError) as fault:
        return _fail(name, f"the payload does not fit ({type(fault).__name__}: {fault})", _BAD_PAYLOAD)
    except (flaky.OnPurposeError, slow.StoppedError, OSError) as fault:
        return _fail(name, str(fault), 1)
    return 0


def _fail(name: str, error: str, code: int) -> int:
    sys.stderr.write(f"{name}: {error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
