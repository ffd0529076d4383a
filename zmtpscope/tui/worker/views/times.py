"""Times in views: seconds since the first packet."""

from __future__ import annotations

from collections.abc import Callable

from zmtpscope.records import SECOND
from zmtpscope.store import Store


def since_start(store: Store) -> Callable[[int], str]:
    """What shows a time, nanoseconds since the epoch, as seconds since the first packet, or the first record where
    nobody has said when the first packet came."""
    start = store.first_time
    if start is None and len(store):
        start = store.row(0)["ts_ns"]
    return lambda time: f"{(time - (start or 0)) / SECOND:.6f}"
