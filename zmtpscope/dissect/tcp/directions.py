"""The segments of a block by direction, and which directions are in order: no call per packet.

A direction is *clean* in a block if its segments follow one another without hole or repetition, SYN and FIN counted.
None of them may be truncated or announce a closed receive window. A SYN must be the first segment, and only bare
acknowledgments may follow a FIN.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from zmtpscope.capture.segments import ACK, CLOSED_WINDOW, CUT, FIN, RST, SYN, UNREACHABLE, Column, Mask, SegmentBlock
from zmtpscope.dissect.tcp.sequence import MODULUS

NEVER_CLEAN = RST | CUT | CLOSED_WINDOW | UNREACHABLE


class Directions:
    """Columns and lists with one entry per distinct key of the block, in the order of `block.keys`.

    `numbers` maps a key to its index. `carrying_rows` are the rows with payload, sorted by direction; the rows of
    direction i begin at `bounds[i]`, or `carrying_begins[i]`.
    """

    def __init__(self, block: SegmentBlock) -> None:
        self.numbers: dict[bytes, int] = dict(zip(block.keys, range(len(block.keys)), strict=True))
        order = block.flows.argsort(kind="stable")
        flows, flags = block.flows[order], block.flags[order]
        sequences, lengths = block.sequences[order], (block.stops - block.starts)[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = flows[1:] != flows[:-1]
        first = begins.nonzero()[0]
        last = np.empty_like(first)
        last[:-1], last[-1] = first[1:] - 1, len(order) - 1
        syn, fin = (flags & SYN) != 0, (flags & FIN) != 0
        taken = lengths + syn + fin
        fits = np.empty(len(order), np.bool_)
        fits[0] = True
        fits[1:] = sequences[1:] == (sequences[:-1] + taken[:-1]) % MODULUS
        fits |= begins
        fits &= begins | ~syn
        fits &= (flags & NEVER_CLEAN == 0) & (flags & (SYN | ACK) != 0) & (flags & (SYN | FIN) != SYN | FIN)
        numbers = np.arange(len(order))
        last_taken = np.maximum.reduceat(np.where(taken > 0, numbers, -1), first)
        last_fin = np.maximum.reduceat(np.where(fin, numbers, -1), first)
        clean = np.logical_and.reduceat(fits, first)
        clean &= (last_fin < 0) | ((last_fin == last_taken) & (np.add.reduceat(fin, first, dtype=np.int64) == 1))
        fins = np.where(last_fin < 0, -1, order[last_fin])
        octets = np.add.reduceat(lengths, first)
        carries = lengths > 0
        bounds = np.append(0, np.add.reduceat(carries, first, dtype=np.int64).cumsum())
        # as columns
        self.is_plain: Mask = clean & (flags[first] & SYN == 0) & (fins < 0)
        """Whether the direction is clean, without SYN and FIN."""
        self.is_clean: Mask = clean
        self.flags_of_first: Column = flags[first]
        self.first_sequences: Column = sequences[first]
        self.octet_counts: Column = octets
        self.first_rows: Column = order[first]
        self.second_rows: Column = order[np.minimum(first + 1, last)]
        """Row of the second segment, or of the first if there is only one."""
        self.last_rows: Column = order[last]
        self.fin_rows: Column = fins
        """Row of the FIN, -1 if there is none."""
        self.carrying_rows: Column = order[carries]
        self.carrying_begins: Column = bounds
        # as lists
        self.clean: list[bool] = clean.tolist()
        self.segments: list[int] = (last - first + 1).tolist()
        self.first_row: list[int] = self.first_rows.tolist()
        self.second_row: list[int] = self.second_rows.tolist()
        self.first_flags: list[int] = self.flags_of_first.tolist()
        self.first_sequence: list[int] = self.first_sequences.tolist()
        self.octets: list[int] = octets.tolist()
        self._rows, self._first, self._last = order, first, last
        self._acknowledgments = np.where(flags & ACK, block.acknowledgments[order], -1)
        self.acknowledgments: Column = self._acknowledgments[last]
        self.acknowledgment: list[int] = self.acknowledgments.tolist()
        """Acknowledgment number of the last segment, -1 for a SYN without ACK."""
        self.last_row: list[int] = self.last_rows.tolist()
        self.fin_row: list[int] = fins.tolist()
        self.bounds: list[int] = bounds.tolist()

    @cached_property
    def _carrying(self) -> list[int]:
        rows: list[int] = self.carrying_rows.tolist()
        return rows

    def rows_of(self, direction: int) -> list[int]:
        """Return the rows of a direction that carry octets."""
        return self._carrying[self.bounds[direction] : self.bounds[direction + 1]]

    def last_fin(self, directions: Iterable[int]) -> int:
        """Return the last row with a FIN of these directions; negative directions are skipped. At least one must have a
        FIN."""
        return max([self.fin_row[direction] for direction in directions if direction >= 0])

    def acknowledgment_until(self, direction: int, row: int) -> int:
        """Return the acknowledgment number of the last segment of the direction up to `row`, which must exist."""
        if self.last_row[direction] <= row:
            return self.acknowledgment[direction]
        first, last = self._first[direction], self._last[direction]
        behind = self._rows[first : last + 1].searchsorted(row, "right")
        return int(self._acknowledgments[first + behind - 1])

    def last_row_before(self, key: bytes, row: int) -> int:
        """Return the last row of a direction before `row`, -1 if there is none."""
        direction = self.numbers.get(key)
        if direction is None:
            return -1
        if self.last_row[direction] < row:
            return self.last_row[direction]
        rows = self._rows[self._first[direction] : self._last[direction] + 1]
        place = int(rows.searchsorted(row))
        return int(rows[place - 1]) if place else -1

    def begin_a_connection(self, direction: int, other: int | None) -> bool:
        """Whether `direction` begins with a SYN that `other` answers next, if there already is another direction."""
        if self.first_flags[direction] & (SYN | ACK) != SYN:
            return False
        if other is None:
            return self.segments[direction] == 1
        answered = self.first_flags[other] & (SYN | ACK) == SYN | ACK
        early = self.segments[direction] > 1 and self.second_row[direction] < self.first_row[other]
        return answered and self.first_row[direction] < self.first_row[other] and not early
