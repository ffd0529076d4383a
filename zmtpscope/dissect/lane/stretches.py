"""Scan the plain frames of many byte strings ("stretches") at once.

A Python loop over frames (`zmtp/scanner.py`) costs as much per frame as numpy per hundred. So with many stretches, all
first frames are read together, then all second ones, and so on until few stretches have any left. The compiled twin
(`stretches_compiled.pyx`) is one loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope import compiled
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.stream.runs import as_array, columns_of
from zmtpscope.zmtp.events import FrameColumns
from zmtpscope.zmtp.framing import HEADER_OF_LONG, HEADER_OF_SHORT, LARGEST_SHORT, LARGEST_SIZE, LONG, MORE
from zmtpscope.zmtp.scanner import is_part_of_header, scan_2

FEWEST = 128
"""Minimum number of unfinished stretches for numpy; with fewer the loop is faster."""

FARTHEST = 1 << 62
"""Upper limit for positions; larger ones are reported as this value."""


class Scanned(NamedTuple):
    """The frames of all stretches.

    Stretch k has `counts[k]` frames; `places[k]` is the position of its first unread header, after its end if the last
    body is incomplete. `is_plain` marks stretches without anything else up to their end. `frames` (rows: header, body,
    size, flags) contains the frames of the first stretch, then of the second, and so on, with positions relative to
    their stretch.
    """

    counts: Int64
    places: Int64
    is_plain: Bool
    frames: Int64


class Round(NamedTuple):
    """One frame each of some `stretches`: positions of header and body in the joined octets, body size, and flags."""

    stretches: Int64
    heads: Int64
    bodies: Int64
    sizes: Int64
    flags: Int64


@compiled.where_possible
def scan(stretches: Sequence[bytes], places: Int64) -> Scanned:
    """Scan 2.0 and 3.x frames (wire.md 4.2, 6) of each stretch from its position in `places` on."""
    lengths = np.array(list(map(len, stretches)), np.int64)
    places, shifts, rounds = places.copy(), lengths.cumsum() - lengths, list[Round]()
    if len(stretches) >= FEWEST:
        places += shifts
        rounds = scan_side_by_side(b"".join(stretches), places, shifts + lengths)
        places -= shifts
    counts, is_plain, rest = np.zeros_like(lengths), np.ones(len(lengths), np.bool_), dict[int, FrameColumns]()
    for each in rounds:
        counts[each.stretches] += 1
    for number in (places < lengths).nonzero()[0].tolist():
        octets, frames = stretches[number], FrameColumns()
        place = scan_2(octets, int(places[number]), 0, frames)
        is_plain[number] = place >= len(octets) or is_part_of_header(octets, place)
        places[number], rest[number] = min(place, FARTHEST), frames
        counts[number] += len(frames)
    ends = counts.cumsum()
    first = ends - counts
    found = np.empty((4, int(counts.sum())), np.int64)
    for each in rounds:
        here, shift = first[each.stretches], shifts[each.stretches]
        found[:, here] = each.heads - shift, each.bodies - shift, each.sizes, each.flags
        first[each.stretches] += 1
    for number, frames in rest.items():
        found[:, first[number] : ends[number]] = [as_array(column) for column in columns_of(frames)]
    return Scanned(counts, np.minimum(places, FARTHEST), is_plain, found)


def scan_side_by_side(data: bytes, places: Int64, stops: Int64) -> list[Round]:
    """Scan 2.0 and 3.x frames (wire.md 4.2, 6) of stretches of `data` from `places` to `stops`, while enough have any
    left.

    Updates `places` to the first unread headers, which are beyond the stop if the last body is incomplete.
    """
    octets = np.frombuffer(data, np.uint8)
    rounds: list[Round] = []
    going = (places + 1 < stops).nonzero()[0]
    while len(going) >= FEWEST:
        heads, ends = places[going], stops[going]
        flags = octets[heads].astype(np.int64)
        sizes, bodies = octets[heads + 1].astype(np.int64), heads + HEADER_OF_SHORT
        plain = flags < LONG
        long = ((flags | MORE) == LONG | MORE) & (heads + HEADER_OF_LONG <= ends)
        if long.any():
            sizes[long] = _sizes_of_long(octets, heads[long])
            bodies[long] = heads[long] + HEADER_OF_LONG
            plain |= long & (sizes > LARGEST_SHORT) & (sizes <= LARGEST_SIZE)
        if not plain.all():
            going, heads, bodies, sizes, flags = (column[plain] for column in (going, heads, bodies, sizes, flags))
        rounds.append(Round(going, heads, bodies, sizes, flags))
        behind = bodies + np.minimum(sizes, LARGEST_SIZE - bodies)
        places[going] = behind
        going = going[behind + 1 < stops[going]]
    return rounds


def _sizes_of_long(octets: NDArray[np.uint8], heads: Int64) -> Int64:
    """Return the sizes in long headers; negative if they use all 64 bits."""
    table = octets[heads[:, None] + np.arange(1, HEADER_OF_LONG)]
    sizes: Int64 = np.ascontiguousarray(table).view(">i8").astype(np.int64)[:, 0]
    return sizes
