"""What sets connections apart that use the same ports one after the other (RFC 9293, 3.4.1: incarnations).

Usually their times do. Where those stand still or run backwards, a count does, which depends on the packets of these
ports alone.
"""

from __future__ import annotations

from collections import OrderedDict

REMEMBERED = 16_384
"""So many pairs of sockets are remembered; the one that began a connection longest ago is forgotten."""


class Incarnations:
    """The connections, or flows, of a run by the key of who began them."""

    def __init__(self) -> None:
        self.latest: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        """The latest time at which one began (ns), and how many began no later than another before them."""

    def begin(self, key: bytes, time: int) -> int:
        """One begins: 0 where it is later than all before it on the same sockets, else a number of its own."""
        before = self.latest.pop(key, None)
        latest, count = (time, 0) if before is None else before
        is_later = before is None or time > latest
        count += not is_later
        self.latest[key] = max(latest, time), count
        if len(self.latest) > REMEMBERED:
            self.latest.popitem(last=False)
        return 0 if is_later else count
