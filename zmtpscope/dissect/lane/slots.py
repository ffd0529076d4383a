"""What the lane remembers of sides as numbers, all of them as columns."""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.lane.sides import Counts
from zmtpscope.dissect.records.batch import Int64

FIRST_SLOTS = 64


class Columns:
    """What is remembered of each side as a number, an entry for each slot: sides 0 and 1 of a connection have an even
    slot and the one behind it."""

    def __init__(self) -> None:
        self.next: Int64 = np.empty(0, np.int64)
        """The sequence number of the next octet."""
        self.acknowledged = self.next
        """The last acknowledgment number that the side sent."""
        self.end = self.next
        """The stream offset of the next octet."""
        self.position = self.next
        """That of the next frame header."""
        self.sends = self.next
        """Whether messages of the side are read in the lane; any octet of another one releases the connection."""
        self.last: Int64 = np.empty((len(Arrival._fields), 0), np.int64)
        """Its last segment, as an `Arrival`."""
        self.blocks = self.next
        """How many blocks have had something of it since it was adopted."""
        self.counts: Int64 = np.empty((len(Counts._fields), 0), np.int64)
        """What was read of it in the lane, as `Counts`."""

    def begin(self, slot: int, next_: int, acknowledged: int, last: Arrival, sends: bool) -> None:
        """A side has this slot from now on: the number of its next octet, the last number that it has acknowledged, and
        its last segment."""
        self.next[slot], self.acknowledged[slot], self.last[:, slot] = next_, acknowledged, last
        self.sends[slot], self.blocks[slot], self.counts[:, slot] = sends, 0, 0

    def counts_of(self, slot: int) -> Counts:
        """What was read of a side in the lane."""
        return Counts(*self.counts[:, slot].tolist())

    def grow(self) -> range:
        """Add slots: the even ones of them."""
        begin = len(self.next)
        more = max(FIRST_SLOTS, begin)
        for name, column in vars(self).items():
            setattr(self, name, np.concatenate((column, np.zeros((*column.shape[:-1], more), np.int64)), -1))
        return range(begin, begin + more, 2)
