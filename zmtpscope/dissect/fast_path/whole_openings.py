"""Find new connections with handshakes that are complete within one block and equal known ones, all at once."""

from __future__ import annotations

import numpy as np

from zmtpscope.capture.segments import SegmentBlock
from zmtpscope.dissect.fast_path.new_connections import NewConnections
from zmtpscope.dissect.fast_path.openings import LONGEST, Openings, Path
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.tcp.directions import Directions


def find(block: SegmentBlock, directions: Directions, pairs: Int64, openings: Openings) -> list[NewConnections]:
    """Return the new connections with handshakes of earlier connections.

    `pairs` are the two directions of each candidate.
    """
    found: list[NewConnections] = []
    for path in openings.paths():
        rows, fits = _following(path, block, directions, pairs)
        if fits.any():
            openings.remember(path)
            found.append(NewConnections(path, pairs[:, fits], rows[:, fits], block, directions))
            pairs = pairs[:, ~fits]
    return found


def _following(path: Path, block: SegmentBlock, directions: Directions, pairs: Int64) -> tuple[Int64, Bool]:
    """Return the rows with the segments of known handshakes, and which connections follow them to their end.

    `path` are the handshakes, `pairs` are the two directions of each connection.
    """
    rows, fits = _rows_on(path, directions, pairs)
    times, lengths = block.times[rows], block.stops[rows] - block.starts[rows]
    fits &= (times[1:] >= times[:-1]).all(axis=0) & (times[-1] < times[0] + LONGEST)
    sizes = np.array([[len(octets)] for octets in path.octets])
    fits &= (lengths[:-1] == sizes[:-1]).all(axis=0) & (lengths[-1] >= sizes[-1])
    has_fin = directions.fin_rows[pairs] >= 0
    fits &= has_fin[0] == has_fin[1]
    for number, (side, end) in enumerate(zip(path.opening.sides, path.opening.ends, strict=True)):
        if side is None:
            fits &= directions.octet_counts[pairs[number]] == end
    data = np.frombuffer(block.data, np.uint8)
    for row, octets, identity in zip(rows, path.octets, path.identities, strict=True):
        which, places = fits.nonzero()[0], np.arange(len(octets))
        begins = block.starts[row[which]]
        if identity is not None:
            places = np.delete(places, identity)
        is_same = data[begins[:, None] + places] == np.frombuffer(octets, np.uint8)[places]
        fits[which] = is_same.all(axis=1)
        if identity is not None:
            fits[which] &= data[begins + identity.start] != 0
    return rows, fits


def _rows_on(path: Path, directions: Directions, pairs: Int64) -> tuple[Int64, Bool]:
    """Return the rows that may carry the segments of known handshakes, and for which connections they do.

    `pairs` are the two directions of each connection. A connection fits if its sides send in the same order as in
    `path`; rows of other connections are meaningless.
    """
    begins, carrying = directions.carrying_begins, np.append(directions.carrying_rows, 0)
    needed = np.array([[path.sides.count(side)] for side in (0, 1)])
    first = begins[pairs]
    left = begins[pairs + 1] - first - needed
    fits: Bool = (left >= 0).all(axis=0)
    rows = np.zeros((len(path.sides), pairs.shape[1]), np.int64)
    taken = [0, 0]
    for place, side in enumerate(path.sides):
        rows[place] = carrying[np.where(fits, first[side] + taken[side], -1)]
        taken[side] += 1
    following = carrying[np.where(left > 0, first + needed, -1)]
    fits &= (rows[1:] > rows[:-1]).all(axis=0)
    fits &= ((left <= 0) | (following > rows[-1])).all(axis=0)
    return rows, fits
