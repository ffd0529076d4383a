"""Stop third-party dissectors that do not return: a timer checks which calls are still running."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.side import claim_of, is_claimed_at_once, read_whole, result_at_once

SECONDS = 1.5
"""Seconds between checks. A call still running at the second check is ended, so after 1.5 to 3 s."""

CALLS = {
    claim_of.__code__: "payload",
    read_whole.__code__: "payload",
    is_claimed_at_once.__code__: "payload",
    result_at_once.__code__: "payload",
    Registry.make.__code__: "kind",
}
"""Functions that call dissectors and handle their exceptions, with the variable that holds the dissector."""


class Interrupting:
    """Stops calls of dissectors that take too long, unless they run in compiled code.

    Works only in the main thread, and uses SIGALRM. The only cost is the timer.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._met: list[FrameType] = []
        """Calls running at the last check, innermost first."""
        signal.signal(signal.SIGALRM, self._look)

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._met = []

    def _look(self, number: int, frame: FrameType | None) -> None:
        before, self._met = self._met, list(_calls(frame))
        stuck = next((call for call in self._met if call in before), None)
        if stuck is not None:
            name = stuck.f_locals[CALLS[stuck.f_code]].name
            self._met = []
            raise self._registry.stop(name, f"one call took longer than {SECONDS:g} s")


def _calls(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the calls of dissectors that are running in the stack of `frame`, innermost first."""
    inner = None
    while frame is not None:
        if inner is not None and getattr(frame.f_locals.get(CALLS.get(frame.f_code, "")), "name", None) is not None:
            yield frame
        inner, frame = frame, frame.f_back
