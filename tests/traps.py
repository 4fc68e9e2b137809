"""Traps seen on real databases: each test runs twice, as the product is built, and with the mend taken away.

The second run must fail, by the very assertion that shows the trap; so the test is seen red every time. What was seen
is listed in docs/decisions/0006-traps-seen-red.md.
"""

import pytest

_TAKEN_AWAY = pytest.mark.xfail(strict=True, raises=AssertionError, reason="without its mend the trap is sprung")

both_ways = pytest.mark.parametrize(
    "is_mended", [pytest.param(True, id="mended"), pytest.param(False, id="unmended", marks=_TAKEN_AWAY)]
)
