"""The cost of code as a number of steps, which no other load on the machine changes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """Return how many Python functions, generators included, `work` enters."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    gc.disable()  # hypothesis has itself called by the garbage collector
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def lines_of(work: Callable[[], object]) -> int:
    """Return how many lines of Python `work` executes."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(None)
    return count
