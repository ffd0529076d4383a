"""The two suites: `pytest` runs the quick one, `pytest --full` everything.

The quick suite leaves out tests that are marked `slow`, tries a quarter of the examples of property tests, and runs
most tests over captures on a selection of them (`tests/readings.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, settings

Case = TypeVar("Case")

IS_FULL = os.environ.get("ZMTPSCOPE_TEST_SUITE") == "full"
"""Whether this run is the full suite. `pytest --full` sets the variable, which processes that tests start inherit."""

FULL_EXAMPLES, QUICK_EXAMPLES = 40, 10
"""Examples of a property test that asks for no other number."""


def load_profile() -> None:
    """Load the Hypothesis profile of this suite; `--hypothesis-profile=search` takes precedence and looks further.

    Every run tries the same examples, so that a test that fails for one person fails for all. There is no deadline:
    test machines are shared, and their speed is no property of the code.
    """
    settings.register_profile(
        "zmtpscope",
        max_examples=FULL_EXAMPLES if IS_FULL else QUICK_EXAMPLES,
        derandomize=True,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile(
        "search", settings.get_profile("zmtpscope"), max_examples=50 * FULL_EXAMPLES, derandomize=False
    )
    settings.register_profile(  # for `make mutants`, which needs a failure and not its smallest example
        "mutants", settings.get_profile("zmtpscope"), phases=[Phase.explicit, Phase.generate]
    )
    settings.load_profile("zmtpscope")


def some(cases: Iterable[Case], every: int) -> list[Case]:
    """Return all cases in the full suite, and in the quick one every `every`-th."""
    return list(cases) if IS_FULL else list(cases)[::every]


def examples(count: int, *, least: int = 1) -> settings:
    """Return settings of a property test that needs `count` examples in the full suite, and in proportion in others.

    `least` is for tests of seams: the examples that catch their mutants in the quick suite.
    """
    return settings(max_examples=max(least, count * settings.default.max_examples // FULL_EXAMPLES))
