"""A short campaign, the same every time; `make fuzz` is the long one."""

from __future__ import annotations

from tests.fuzz.campaign import Found, Plan, run_campaign
from tests.fuzz.cases import Case
from tests.fuzz.checks import CHECKS
from tests.readings import CAPTURE_FILES
from tests.suites import IS_FULL

CASES = 200 if IS_FULL else 30
TIMED = {"cost"}
"""Checks that measure time, which is no property of the code on a machine that has other things to do."""


def test_the_properties_hold_for_any_change_of_captures() -> None:
    reported: list[tuple[int, Found]] = []

    def report(number: int, case: Case, found: Found) -> None:
        reported.append((number, found))

    captures = tuple(CAPTURE_FILES)
    checks = tuple(check for check in CHECKS if check.name not in TIMED)
    tally = run_campaign(Plan(13, captures, checks, cases=CASES), report)
    assert reported == []
    assert tally.cases == CASES
    assert all(tally.checks[check.name] for check in checks)
