"""Tests in several processes (`pytest -n 2`): their distribution, and a summary."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SPARK = "tests/spark/"


class ByFile(LoadFileScheduling):
    """One process runs all tests of a file, which share fixtures, and one process runs all tests that need Spark,
    because it starts slowly. The group with the most tests starts first: usually Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    return ByFile(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of tests: the lines of dots do not show it if files run in parallel."""
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, float] = defaultdict(float)
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = report.nodeid.partition("::")[0].rpartition("/")[0]
                outcomes[folder][outcome] += bool(outcome)  # setup and teardown of fixtures have no outcome
                seconds[folder] += report.duration
    terminalreporter.section("what was run")
    for folder, counted in sorted(outcomes.items()):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in counted.items() if count)
        terminalreporter.write_line(f"{folder:<28} {seconds[folder]:5.0f} s  {counts}")
