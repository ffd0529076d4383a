"""Times in views, as seconds since the first packet."""

from __future__ import annotations

from collections.abc import Callable

from zmtpscope.records import SECOND
from zmtpscope.store import Store


def since_start(store: Store) -> Callable[[int], str]:
    """Return a formatter of times (nanoseconds since the epoch) as seconds since the first packet.

    The first record counts if the time of the first packet is unknown.
    """
    start = store.first_time
    if start is None and len(store):
        start = store.row(0)["ts_ns"]
    return lambda time: f"{(time - (start or 0)) / SECOND:.6f}"
