"""Detect acknowledgments that are late, or captured before the octets that they acknowledge.

A system acknowledges the octets of a slow stream as soon as its program reads them, within a millisecond. If the
program does not read, the timer for delayed acknowledgments sends the acknowledgment, after 40 ms on Linux (RFC 9293,
3.8.6.3). Only sides that send no octets are examined, because others delay acknowledgments to send them with their
octets.

An acknowledgment before its octets shows that the capture has the packets of the two directions in a wrong order, for
example because it was merged from two interfaces. New octets are compared with the largest number acknowledged before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.capture.segments import ACK, CUT, FIN, PACKET_MASK, RST, SYN, Column, SegmentBlock
from zmtpscope.dissect.tcp.connection import reverse
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.sequence import MODULUS, distance

AT_ONCE, EARLIEST, LATEST = 5_000_000, 35_000_000, 55_000_000
"""Maximum time (ns) of an acknowledgment by a program that reads, and the range of one by the timer. A path or a link
that became slower has other times."""

MIN_AT_ONCE, MIN_LATE, MIN_LASTED = 10, 8, 2_000_000_000
"""Acknowledgments at once, then late ones in a row, and the time between the first and the last of these (ns)."""

END, TIME, PROMPT, LATE_ONES, SINCE, FIRST, IS_LATE, NEXT, ACKNOWLEDGED, IS_DONE = range(10)
FIELDS = 10
"""Number of fields of a direction: what it sent last, its acknowledgments of a slow stream; then the next sequence
number and the largest acknowledgment (each + 1; 0: unknown), and whether its octets are not compared any more: one was
reported, or it ended."""

IS_TIMING = slice(END, NEXT)
"""The fields about a slow stream."""

LATE, PROMPTLY, EARLY = range(3)
"""Kinds of `Change`: acknowledgments are late, at once again, or captured before their octets."""

MAX_AHEAD = 1 << 20
"""Octets after a SYN up to which earlier segments belong to its connection, and not to one with the same ports
before."""

MAX_FOLLOWED = 65_536
"""Directions; when there are more, all are forgotten before the next block."""


class Change(NamedTuple):
    """A change in the acknowledgments of a direction, which row `row` of a block shows.

    `direction` is an index of `block.keys`: the side that acknowledges, but of kind `EARLY` the side whose octets come
    after their acknowledgment. `packet` is the first late or prompt packet, or the one with these octets. `kind`:
    `LATE`, `PROMPTLY` or `EARLY`.
    """

    direction: int
    row: int
    packet: int
    kind: int


class AcknowledgmentTimes:
    """Detects late and early acknowledgments on all connections of a run."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        """Row of `_state` by flow key; the other direction has the row beside it."""
        self._next = 0
        self._state = np.zeros((2, FIELDS), np.int64)

    def feed(self, block: SegmentBlock, directions: Directions) -> list[Change]:
        """Return the changes that the packets of a block show; `EARLY` only once for each connection."""
        if self._next > MAX_FOLLOWED:
            self._places.clear()
            self._state[:] = self._next = 0
        places = self._places_of(block.keys, directions)
        columns = block.flows, block.sequences, block.acknowledgments, block.flags, block.starts, block.stops
        found = acknowledgment_changes(places, self._state, *columns, block.times, block.packets)
        self._state[self._next : places.max(initial=0) + 1] = 0  # rows for this block only
        return [Change(direction, row, packet & PACKET_MASK, kind) for direction, row, packet, kind in found]

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
def acknowledgment_changes(
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
) -> list[tuple[int, int, int, int]]:
    """Update the state of directions by the rows of a block; return (direction, row, packet, kind) as in `Change`.

    Direction i has its state in row `places[i]` of `state`; the other parameters are columns of `SegmentBlock`.
    """
    found = []
    columns = flows, sequences, acknowledgments, flags, starts, stops, times, packets
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for row, (flow, sequence, acknowledgment, flag, start, stop, time, packet) in enumerate(rows):
        own, other = state[places[flow]], state[places[flow] ^ 1]
        end = (sequence + stop - start) % MODULUS
        if flag & SYN:
            if not (own[NEXT] and 0 <= distance(int(own[NEXT]) - 1, end + 1) < MAX_AHEAD):  # no copy of an earlier one
                own[NEXT:] = end + 2, 0, False
                if not (flag & ACK or 0 <= distance(int(other[ACKNOWLEDGED]) - 1, end + 1) < MAX_AHEAD):
                    other[NEXT:] = 0
        elif own[NEXT] and distance(end, int(own[NEXT]) - 1) > 0:
            begin = sequence if distance(sequence, int(own[NEXT]) - 1) > 0 else int(own[NEXT]) - 1
            is_early = other[ACKNOWLEDGED] and distance(int(other[ACKNOWLEDGED]) - 1, begin) > 0
            if is_early and stop > start and not own[IS_DONE]:
                own[IS_DONE] = other[IS_DONE] = True
                found.append((flow, row, packet, EARLY))
            own[NEXT] = end + 1
        if flag & (FIN | RST):
            own[IS_DONE] = True
            other[IS_DONE] |= bool(flag & RST)
        if flag & (ACK | RST) == ACK and (
            not own[ACKNOWLEDGED] or distance(acknowledgment, int(own[ACKNOWLEDGED]) - 1) > 0
        ):
            own[ACKNOWLEDGED] = acknowledgment + 1
        if flag & (SYN | FIN | RST | CUT):
            own[IS_TIMING] = other[IS_TIMING] = 0
        elif stop > start:
            own[IS_TIMING] = 0
            own[END], own[TIME] = end, time
        elif flag == ACK and other[TIME] and other[END] == acknowledgment:
            took, other[TIME] = time - other[TIME], 0
            if took < AT_ONCE:
                own[PROMPT] += 1
                own[LATE_ONES] = 0
                if own[IS_LATE] and own[PROMPT] == 1:
                    own[FIRST] = packet
                if own[IS_LATE] and own[PROMPT] == MIN_AT_ONCE:
                    own[IS_LATE] = 0
                    found.append((flow, row, int(own[FIRST]), PROMPTLY))
            elif own[IS_LATE]:
                own[PROMPT] = 0
            elif not EARLIEST <= took <= LATEST:
                own[LATE_ONES] = 0
            elif own[PROMPT] >= MIN_AT_ONCE:
                if not own[LATE_ONES]:
                    own[SINCE], own[FIRST] = time, packet
                own[LATE_ONES] += 1
                if own[LATE_ONES] >= MIN_LATE and time - own[SINCE] >= MIN_LASTED:
                    own[IS_LATE], own[PROMPT] = 1, 0
                    found.append((flow, row, int(own[FIRST]), LATE))
    return found
