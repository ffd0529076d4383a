"""Times in views."""

from __future__ import annotations

from collections.abc import Callable

from zmtpscope.export.clock import Clock
from zmtpscope.store import Store


def shown_times(store: Store, form: str) -> Callable[[int], str]:
    """Return a formatter of times (ns since the epoch), in a format of `-t`.

    Seconds count from the first packet, or from the first record if that time is unknown.
    """
    start = store.first_time
    if start is None:
        start = store.row(0)["ts_ns"] if len(store) else 0
    clock = Clock(form, lambda: start)
    return lambda time: clock(time).strip()
