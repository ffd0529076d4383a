"""Plain frames of many stretches of octets at once, one of each at a time.

A loop over the frames of a stretch (`zmtp/scanner.py`) costs as much for each of them as numpy does for a hundred. So
where there are many stretches, their first frames are read together, then their second ones, and so on, until few have
any left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.records.batch import Int64
from zmtpscope.dissect.records.columns import Bool
from zmtpscope.zmtp.framing import LARGEST_SIZE, LONG

FEWEST = 128
"""With fewer stretches that have octets left the loop is quicker."""

LARGEST_SHORT = 255
HEADER_OF_SHORT, HEADER_OF_LONG = 2, 9


class Step(NamedTuple):
    """One frame each of some `stretches`: places of header and body, size of the body, and flags."""

    stretches: Int64
    heads: Int64
    bodies: Int64
    sizes: Int64
    flags: Int64

    def of(self, chosen: Bool) -> Step:
        """Some of them."""
        return Step(*[column[chosen] for column in self])


def scan_side_by_side(data: bytes, places: Int64, stops: Int64) -> list[Step]:
    """Scan 2.0 and 3.x frames (wire.md 4.2, 6) of stretches that begin at `places` of `data` and end at `stops`, as
    long as many go on. `places` become those of the first headers that were not consumed, beyond the stop where the
    last body is not all there."""
    octets = np.frombuffer(data, np.uint8)
    steps: list[Step] = []
    going = (places + 1 < stops).nonzero()[0]
    while len(going) >= FEWEST:
        heads, ends = places[going], stops[going]
        flags = octets[heads].astype(np.int64)
        sizes, bodies = octets[heads + 1].astype(np.int64), heads + HEADER_OF_SHORT
        plain = flags < LONG
        long = ((flags | 1) == LONG | 1) & (heads + HEADER_OF_LONG <= ends)
        if long.any():
            sizes[long] = _sizes_of_long(octets, heads[long])
            bodies[long] = heads[long] + HEADER_OF_LONG
            plain |= long & (sizes > LARGEST_SHORT) & (sizes <= LARGEST_SIZE)
        if not plain.all():
            going, heads, bodies, sizes, flags = (column[plain] for column in (going, heads, bodies, sizes, flags))
        steps.append(Step(going, heads, bodies, sizes, flags))
        behind = bodies + np.minimum(sizes, LARGEST_SIZE - bodies)
        places[going] = behind
        going = going[behind + 1 < stops[going]]
    return steps


def _sizes_of_long(octets: NDArray[np.uint8], heads: Int64) -> Int64:
    """The sizes that long headers tell; below zero where they have 64 bits."""
    table = octets[heads[:, None] + np.arange(1, HEADER_OF_LONG)]
    sizes: Int64 = np.ascontiguousarray(table).view(">i8").astype(np.int64)[:, 0]
    return sizes
