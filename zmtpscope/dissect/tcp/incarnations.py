"""Distinguish successive connections on the same ports (RFC 9293, 3.4.1: incarnations).

Usually their start times differ. If times repeat or run backwards, a count distinguishes them, which depends only on
the packets of these ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from zmtpscope.dissect.tcp.recent import Recent

REMEMBERED = 16_384
"""Socket pairs. Those with the oldest connections are forgotten."""


class Incarnations:
    def __init__(self) -> None:
        self.latest: Recent[bytes, tuple[int, int]] = Recent(REMEMBERED)
        """Latest start time (ns), and how many connections started no later than an earlier one."""

    def begin(self, key: bytes, time: int) -> int:
        """Return 0 if a connection that starts at `time` is later than all earlier ones on the same sockets.

        Otherwise returns a number that distinguishes it. `key` contains both addresses and ports.
        """
        before = self.latest.get(key)
        latest, count = (time, 0) if before is None else before
        is_later = before is None or time > latest
        count += not is_later
        self.latest.update([(key, (max(latest, time), count))])
        return 0 if is_later else count

    def begin_all(self, keys: Sequence[bytes], times: Sequence[int]) -> list[int]:
        """Return the results of `begin` for several connections on different sockets; `times` are their start times."""
        if not self.latest.is_disjoint(keys):
            return list(map(self.begin, keys, times))
        self.latest.update(zip(keys, zip(times, repeat(0)), strict=True))
        return [0] * len(keys)
