"""Distinguish successive connections on the same ports (RFC 9293, 3.4.1: incarnations).

Usually their start times differ. If times repeat or run backwards, a count distinguishes them, which depends only on
the packets of these ports.
"""

from __future__ import annotations

from collections import OrderedDict

REMEMBERED = 16_384
"""Socket pairs. When full, the pair with the oldest connection is forgotten."""


class Incarnations:
    def __init__(self) -> None:
        self.latest: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        """Latest start time (ns), and how many connections started no later than an earlier one."""

    def begin(self, key: bytes, time: int) -> int:
        """Return 0 if a connection starts later than all earlier ones on the same sockets, otherwise a distinct
        number."""
        before = self.latest.pop(key, None)
        latest, count = (time, 0) if before is None else before
        is_later = before is None or time > latest
        count += not is_later
        self.latest[key] = max(latest, time), count
        if len(self.latest) > REMEMBERED:
            self.latest.popitem(last=False)
        return 0 if is_later else count
