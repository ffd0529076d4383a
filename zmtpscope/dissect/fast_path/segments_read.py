"""The segments that the fast path reads, for the index from stream octets to file offsets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zmtpscope.capture.packets import NOWHERE
from zmtpscope.dissect.fast_path.current_block import CurrentBlock
from zmtpscope.dissect.fast_path.new_connections import NewConnections
from zmtpscope.dissect.fast_path.sessions import Sessions
from zmtpscope.dissect.records.batch import Segments, side_number
from zmtpscope.dissect.records.columns import numbers
from zmtpscope.dissect.tcp.directions import NOT_HERE


def segments_read(current: CurrentBlock, sessions: Sessions) -> Iterator[Segments]:
    """Yield the segments that the fast path reads in a block. Call this before the states of sides change."""
    block, directions = current.block, current.directions
    chosen = np.flatnonzero(current.done & (directions.octet_counts > 0))
    if not len(chosen):
        return
    runs = _runs_in_openings(current)
    ends = sessions.side_states.end
    for direction, slot in zip(chosen.tolist(), current.slots[chosen].tolist(), strict=True):
        if slot >= 0:
            runs[direction] = side_number(_number_of(slot, sessions), slot & 1), int(ends[slot])
    counts = np.diff(directions.carrying_begins)[chosen]
    rows = directions.carrying_rows[numbers(directions.carrying_begins[chosen], counts)]
    places = np.array((block.stops - block.starts, block.packets, *block.payload_places()))[:, rows]
    nowhere = rows[places[2] == NOWHERE].tolist()
    octets = b"".join([current.rows.octets(row) for row in nowhere])
    sides, begins = zip(*(runs[direction] for direction in chosen.tolist()), strict=True)
    yield Segments(np.array((sides, begins, counts)), places, octets)


def _runs_in_openings(current: CurrentBlock) -> dict[int, tuple[int, int]]:
    """Return (side, stream offset) of each direction of the block that belongs to a connection in its handshakes."""
    return {
        direction: (side_number(each.tcp.number, number), each.before[number].octets)
        for each, pair in current.opening.items()
        for number, direction in enumerate(pair)
        if direction != NOT_HERE and each.tcp is not None
    }


def _number_of(slot: int, sessions: Sessions) -> int:
    here = sessions.connections[slot & ~1]
    if isinstance(here, NewConnections):
        return here.numbers[here.places[slot & ~1]][0]
    assert here.tcp is not None
    return here.tcp.number
