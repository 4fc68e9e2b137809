"""`make cases`: runs the tests that cover a case and prints case, area, result and tests."""

import io
import sys
from collections import defaultdict
from contextlib import redirect_stdout

import pytest

from tests.cases import case_ids, load_case

RANK = {"passed": 0, "skipped": 1, "failed": 2}


class Recorder:
    """A pytest plugin that keeps, for each case, the worst outcome of each of its tests."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[str, str]] = defaultdict(dict)
        self.failures: list[str] = []
        self._cases_of: dict[str, list[str]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            self._cases_of[item.nodeid] = [name for mark in item.iter_markers("case") for name in mark.args]
        uncovering = [item for item in items if not self._cases_of[item.nodeid]]
        items[:] = [item for item in items if self._cases_of[item.nodeid]]
        config.hook.pytest_deselected(items=uncovering)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.partition("[")[0]
        if report.failed:
            self.failures.append(f"{report.nodeid} ({report.when})\n{report.longreprtext}")
        for case in self._cases_of[report.nodeid]:
            worst = self.outcomes[case].get(test, "passed")
            self.outcomes[case][test] = max(worst, report.outcome, key=RANK.__getitem__)


def table(outcomes: dict[str, dict[str, str]]) -> str:
    rows = [("case", "area", "result", "tests")]
    for case in case_ids():
        if tests := outcomes.get(case):
            worst = max(tests.values(), key=RANK.__getitem__)
            rows.append((case, load_case(case)["area"], worst, " ".join(sorted(tests))))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  ".join([*map(str.ljust, row[:3], widths), row[3]]) for row in rows)


def main() -> int:
    recorder = Recorder()
    with redirect_stdout(io.StringIO()) as said:
        exit_code = int(pytest.main(["-q", "tests"], plugins=[recorder]))
    missing = [case for case in case_ids() if case not in recorder.outcomes]
    print(table(recorder.outcomes))
    print(f"\n{len(recorder.outcomes)} of {len(case_ids())} cases covered", end="")
    print(f"; not yet: {' '.join(missing)}" if missing else "")
    for failure in recorder.failures:
        print(f"\n{failure}")
    if exit_code and not recorder.failures:
        print(said.getvalue(), file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
