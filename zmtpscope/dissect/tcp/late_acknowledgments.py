"""Detect sides whose system acknowledges octets late from some packet on: their programs stopped reading.

A system acknowledges the octets of a slow stream as soon as its program reads them, within a millisecond. If the
program does not read, the timer for delayed acknowledgments sends the acknowledgment, after 40 ms on Linux (RFC 9293,
3.8.6.3). Only sides that send no octets are examined, because others delay acknowledgments to send them with their
octets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.capture.segments import ACK, CUT, FIN, PACKET_MASK, RST, SYN, Column, SegmentBlock
from zmtpscope.dissect.tcp.connection import reverse
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.sequence import MODULUS

AT_ONCE, EARLIEST, LATEST = 5_000_000, 35_000_000, 55_000_000
"""Maximum time (ns) of an acknowledgment by a program that reads, and the range of one by the timer. A path or a link
that became slower has other times."""

MIN_AT_ONCE, MIN_LATE, MIN_LASTED = 10, 8, 2_000_000_000
"""Acknowledgments at once, then late ones in a row, and the time between the first and the last of these (ns)."""

END, TIME, PROMPT, LATE_ONES, SINCE, FIRST, IS_TOLD = range(7)
FIELDS = 7
"""Number of fields of a direction: what it sent last, then its own acknowledgments."""

MAX_FOLLOWED = 65_536
"""Directions; when there are more, all are forgotten before the next block."""


class Unread(NamedTuple):
    """A direction of a block whose system acknowledges late, or again at once (`reads`).

    `packet` is the first late packet, `row` the row that shows it.
    """

    direction: int
    row: int
    packet: int
    reads: bool
    """Whether it acknowledges at once again."""


class LateAcknowledgments:
    """Detects late acknowledgments on all connections of a run."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        """Row of `_state` by flow key; the other direction has the row beside it."""
        self._next = 0
        self._state = np.zeros((2, FIELDS), np.int64)

    def feed(self, block: SegmentBlock, directions: Directions) -> list[Unread]:
        """Return the directions of a block that are now known to acknowledge late."""
        if self._next > MAX_FOLLOWED:
            self._places.clear()
            self._state[:] = self._next = 0
        places = self._places_of(block.keys, directions)
        columns = block.flows, block.sequences, block.acknowledgments, block.flags, block.starts, block.stops
        found = late_acknowledgments(places, self._state, *columns, block.times, block.packets)
        return [Unread(direction, row, packet & PACKET_MASK, reads) for direction, row, packet, reads in found]

    def _places_of(self, keys: list[bytes], directions: Directions) -> Column:
        """Return the rows of `_state` that belong to the directions with these flow keys.

        Connections that begin and end in the block have rows for this block only.
        """
        whole = directions.whole_connections()
        places = np.empty(len(keys), np.int64)
        rest = np.ones(len(keys), np.bool_)
        rest[whole] = False
        places[rest] = [self._place(keys[direction]) for direction in np.flatnonzero(rest).tolist()]
        places[whole] = self._next + np.arange(2 * whole.shape[1]).reshape(-1, 2).T
        self._make_room(self._next + 2 * whole.shape[1])
        return places

    def _place(self, key: bytes) -> int:
        place = self._places.get(key)
        if place is None:
            place, self._next = self._next, self._next + 2
            self._places[key], self._places[reverse(key)] = place, place + 1
            self._make_room(self._next)
        return place

    def _make_room(self, size: int) -> None:
        while size > len(self._state):
            self._state = np.concatenate((self._state, np.zeros_like(self._state)))


@compiled.where_possible
def late_acknowledgments(
    places: Column,
    state: Column,
    flows: Column,
    sequences: Column,
    acknowledgments: Column,
    flags: Column,
    starts: Column,
    stops: Column,
    times: Column,
    packets: Column,
) -> list[tuple[int, int, int, bool]]:
    """Update the state of directions by the rows of a block; return the directions that acknowledge late.

    Direction i has its state in row `places[i]` of `state`; the other parameters are columns of `SegmentBlock`. Returns
    (direction, row, first late packet, reads), fields of `Unread`.
    """
    found = []
    columns = flows, sequences, acknowledgments, flags, starts, stops, times, packets
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for row, (flow, sequence, acknowledgment, flag, start, stop, time, packet) in enumerate(rows):
        own, other = state[places[flow]], state[places[flow] ^ 1]
        if flag & (SYN | FIN | RST | CUT):
            own[:] = other[:] = 0
        elif stop > start:
            own[:] = 0
            own[END], own[TIME] = (sequence + stop - start) % MODULUS, time
        elif flag == ACK and other[TIME] and other[END] == acknowledgment:
            took, other[TIME] = time - other[TIME], 0
            if took < AT_ONCE:
                own[PROMPT] += 1
                own[LATE_ONES] = 0
                if own[IS_TOLD] and own[PROMPT] == 1:
                    own[FIRST] = packet
                if own[IS_TOLD] and own[PROMPT] == MIN_AT_ONCE:
                    own[IS_TOLD] = 0
                    found.append((flow, row, int(own[FIRST]), True))
            elif own[IS_TOLD]:
                own[PROMPT] = 0
            elif not EARLIEST <= took <= LATEST:
                own[LATE_ONES] = 0
            elif own[PROMPT] >= MIN_AT_ONCE:
                if not own[LATE_ONES]:
                    own[SINCE], own[FIRST] = time, packet
                own[LATE_ONES] += 1
                if own[LATE_ONES] >= MIN_LATE and time - own[SINCE] >= MIN_LASTED:
                    own[IS_TOLD], own[PROMPT] = 1, 0
                    found.append((flow, row, int(own[FIRST]), False))
    return found
