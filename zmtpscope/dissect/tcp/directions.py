"""Group the segments of a block by direction, and find the directions that are in order, without a call per packet.

A direction is *clean* in a block if its segments follow one another without hole or repetition, SYN and FIN counted.
None of them may be truncated or announce a closed receive window. A SYN must be the first segment, and only bare
acknowledgments may follow a FIN. A SYN that is repeated right after the first one, within `MIN_LATE`, is allowed,
because it is frequent: a listener with a full queue drops SYNs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from zmtpscope import compiled
from zmtpscope.capture.segments import ACK, CLOSED_WINDOW, CUT, FIN, RST, SYN, UNREACHABLE, Column, Mask, SegmentBlock
from zmtpscope.dissect.tcp.connection import reverse
from zmtpscope.dissect.tcp.sequence import MODULUS
from zmtpscope.records import SECOND

NOT_HERE = -1
"""Marks a direction without segments in the block."""

NEVER_CLEAN = RST | CUT | CLOSED_WINDOW | UNREACHABLE

MIN_LATE = 5 * SECOND // 2
"""Time (ns) from the first SYN to the last, of a connection that opened late: the second copy follows after 3 s."""

IS_PLAIN, IS_CLEAN, FIRST_FLAGS, FIRST_SEQUENCE, OCTETS = range(5)
FIRST_ROW, SYN_ROW, SECOND_ROW, LAST_ROW, FIN_ROW, ACKNOWLEDGMENT = range(5, 11)
COLUMNS = 11
"""Number of columns of directions."""


class Directions:
    """The directions of a block as columns, in the order of `block.keys`.

    `numbers` maps a flow key to its direction. `carrying_rows` are the rows with payload, sorted by direction; those of
    direction i start at `bounds[i]`, or `carrying_begins[i]`.
    """

    def __init__(self, block: SegmentBlock) -> None:
        self.numbers: dict[bytes, int] = dict(zip(block.keys, range(len(block.keys)), strict=True))
        self.opposites = opposites(block.keys, self.numbers)
        """The other direction of each connection, or `NOT_HERE`."""
        numbers = block.flows, block.sequences, block.acknowledgments, block.flags, block.starts, block.stops
        columns, self._rows, self._bounds, carrying, bounds = by_direction(len(block.keys), *numbers)
        # as columns
        self.is_plain: Mask = columns[0] != 0
        """Whether the direction is clean, without SYN and FIN."""
        self.is_clean: Mask = columns[1] != 0
        self.flags_of_first, self.first_sequences, self.octet_counts = columns[2:5]
        self.first_rows, self.syn_rows, self.second_rows, self.last_rows = columns[5:9]
        """SYN rows are the last ones with a SYN, and second rows the first ones after these. Both are first rows if
        there are none."""
        self.is_clean &= block.times[self.syn_rows] - block.times[self.first_rows] < MIN_LATE
        self.fin_rows, self.acknowledgments = columns[9:]
        """Row of the FIN, -1 if there is none. Number in the last segment, -1 for a SYN without ACK."""
        self.carrying_rows: Column = carrying
        self.carrying_begins: Column = bounds
        # the same, for single numbers
        self.clean: Sequence[int] = self.is_clean.data
        views: list[Sequence[int]] = [column.data for column in columns]
        _, _, self.first_flags, self.first_sequence, self.octets, *others = views
        self.first_row, _, _, self.last_row, self.fin_row, self.acknowledgment = others
        self.bounds: list[int] = bounds.tolist()
        self._block = block

    @cached_property
    def _carrying(self) -> list[int]:
        rows: list[int] = self.carrying_rows.tolist()
        return rows

    def pair_of(self, keys: tuple[bytes, bytes]) -> tuple[int, int]:
        """Return the directions of both sides of a connection, or `NOT_HERE`."""
        return self.numbers.get(keys[0], NOT_HERE), self.numbers.get(keys[1], NOT_HERE)

    def leave_to_slow_path(self, direction: int) -> None:
        """Let the slow path read a direction, although its segments are in order."""
        self.is_clean[direction] = self.is_plain[direction] = False

    def rows_of(self, direction: int) -> list[int]:
        return self._carrying[self.bounds[direction] : self.bounds[direction + 1]]

    def last_fin(self, directions: Iterable[int]) -> int:
        """Return the last row with a FIN of these directions, at least one of which has a FIN.

        Negative numbers are skipped.
        """
        return max([self.fin_row[direction] for direction in directions if direction >= 0])

    def acknowledgment_until(self, direction: int, row: int) -> int:
        """Return the acknowledgment number of the direction's last segment up to `row`. There must be one."""
        if self.last_row[direction] <= row:
            return self.acknowledgment[direction]
        rows = self._rows_of(direction)
        last = rows[rows.searchsorted(row, "right") - 1]
        return int(self._block.acknowledgments[last]) if self._block.flags[last] & ACK else -1

    def last_row_before(self, key: bytes, row: int) -> int:
        """Return the last row before `row` of the direction with this flow key, -1 if there is none."""
        direction = self.numbers.get(key)
        if direction is None:
            return -1
        if self.last_row[direction] < row:
            return self.last_row[direction]
        rows = self._rows_of(direction)
        place = int(rows.searchsorted(row))
        return int(rows[place - 1]) if place else -1

    def begin_connections(self, ones: Column, others: Column) -> Mask:
        """Return which of the clean directions `ones` begin with a SYN that the direction in `others` answers next.

        -1 in `others`: there is no other direction yet. If the SYN was repeated, more segments must follow, because the
        fast path does not count unanswered SYNs.
        """
        first, syn, second, last = self.first_rows, self.syn_rows[ones], self.second_rows[ones], self.last_rows[ones]
        begin, answer, flags = first[ones], first[others], self.flags_of_first & (SYN | ACK)
        is_early = (begin < second) & (second < answer)
        fits: Mask = self.is_clean[others] & (ones != others) & (flags[others] == SYN | ACK) & (begin < answer)
        fits &= ~is_early & ((begin == syn) | (syn < last))
        fits = np.where(others < 0, begin == last, fits) & self.is_clean[ones] & (flags[ones] == SYN)
        return fits

    def whole_connections(self) -> Column:
        """Return the directions of connections whose sides both begin with a SYN and end with a FIN in the block, in
        order: side 0, then side 1."""
        ones = np.flatnonzero(self.is_clean & (self.flags_of_first & (SYN | ACK) == SYN) & (self.fin_rows >= 0))
        others = self.opposites[ones]
        is_whole = self.is_clean[others] & (others != NOT_HERE) & (others != ones) & (self.fin_rows[others] >= 0)
        is_whole &= self.flags_of_first[others] & SYN != 0
        return np.array((ones[is_whole], others[is_whole]))

    def _rows_of(self, direction: int) -> Column:
        return self._rows[self._bounds[direction] : self._bounds[direction + 1]]


@compiled.where_possible
def by_direction(
    count: int,
    flows: Column,
    sequences: Column,
    acknowledgments: Column,
    flags: Column,
    starts: Column,
    stops: Column,
) -> tuple[Column, Column, Column, Column, Column]:
    """Group the rows of a block by direction; the parameters are columns of `SegmentBlock`.

    Returns the columns of `Directions` for the `count` directions, and two lists of rows, sorted by direction: all
    rows, then the rows with payload, each with the bounds of the directions.
    """
    columns = [[0] * COLUMNS for _ in range(count)]
    rows: list[list[int]] = [[] for _ in range(count)]
    carrying: list[list[int]] = [[] for _ in range(count)]
    following = [0] * count
    numbers = zip(
        *(column.tolist() for column in (flows, sequences, acknowledgments, flags, starts, stops)), strict=True
    )
    for row, (flow, sequence, acknowledgment, flag, start, stop) in enumerate(numbers):
        direction, syn, fin = columns[flow], bool(flag & SYN), bool(flag & FIN)
        fits = not flag & NEVER_CLEAN and flag & (SYN | ACK) and not (syn and fin)
        if not rows[flow]:
            direction[FIRST_FLAGS], direction[FIRST_SEQUENCE], direction[FIRST_ROW] = flag, sequence, row
            direction[SYN_ROW] = direction[SECOND_ROW] = row
            direction[IS_CLEAN], direction[FIN_ROW] = True, -1
        elif flag == SYN == direction[FIRST_FLAGS] and direction[SECOND_ROW] == direction[FIRST_ROW]:
            direction[SYN_ROW] = row
            fits &= sequence == direction[FIRST_SEQUENCE] and stop == start
        elif syn or sequence != following[flow] or (direction[FIN_ROW] >= 0 and (stop > start or fin)):
            fits = False
        if direction[SECOND_ROW] == direction[FIRST_ROW] and not syn:
            direction[SECOND_ROW] = row
        rows[flow].append(row)
        if stop > start:
            carrying[flow].append(row)
        direction[IS_CLEAN] &= bool(fits)
        direction[OCTETS] += stop - start
        direction[LAST_ROW] = row
        direction[FIN_ROW] = row if fin else direction[FIN_ROW]
        direction[ACKNOWLEDGMENT] = acknowledgment if flag & ACK else -1
        following[flow] = (sequence + stop - start + syn + fin) % MODULUS
    for direction in columns:
        direction[IS_PLAIN] = direction[IS_CLEAN] and not direction[FIRST_FLAGS] & SYN and direction[FIN_ROW] < 0
    found = np.array(columns, np.int64).reshape(-1, COLUMNS).T.copy()
    return found, *_joined(rows), *_joined(carrying)


@compiled.where_possible
def opposites(keys: list[bytes], numbers: dict[bytes, int]) -> Column:
    """Return for each flow key the number of the opposite direction, or `NOT_HERE`."""
    return np.array([numbers.get(reverse(key), NOT_HERE) for key in keys], np.int64)


def _joined(rows: list[list[int]]) -> tuple[Column, Column]:
    bounds = np.cumsum([0, *map(len, rows)])
    return np.array([row for some in rows for row in some], np.int64), bounds
