"""Convert the envelopes of requests and replies to numbers, so that many messages can be compared at once.

An envelope is the frames before the first empty one (wire.md 10.1).
"""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect.records.columns import Int64, numbers
from zmtpscope.dissect.records.message_columns import delimiters
from zmtpscope.dissect.records.tables import MessageTable

NO_DELIMITER = -1
"""Stands for the envelope of a message in which no frame before the last is empty."""
NOT_KNOWN = -2
"""The octets of the envelope were not kept, or are too many."""
EMPTY = 0
"""The message begins with its delimiter, as from REQ and in most replies."""

LARGEST_ENVELOPE = 4096

SPREAD, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
"""Multipliers by position of an octet; the constants of SplitMix64."""


def envelopes(run: MessageTable, rows: Int64) -> Int64:
    """Return a number for the envelope of each of the messages `rows`.

    Numbers are equal for equal octets, and almost surely different otherwise.
    """
    first, last = run.first[rows], run.last[rows]
    if not (run.sizes[first].any() or (first == last).any()):
        return np.full(len(rows), EMPTY)
    delimiter = delimiters(run.sizes, first, last)
    found = np.where(delimiter < last, EMPTY, NO_DELIMITER)
    addressed = np.flatnonzero((delimiter > first) & (delimiter < last))
    if len(addressed):
        found[addressed] = _of_addresses(run, first[addressed], (delimiter - first)[addressed])
    return found


def _of_addresses(run: MessageTable, first: Int64, counts: Int64) -> Int64:
    """Return a number for each envelope that has addresses.

    An envelope is the `counts[i]` frames from frame `first[i]` on, at least one; no frame is empty.
    """
    frames = numbers(first, counts)
    sizes, starts = run.sizes[frames], run.bodies[frames] - run.base
    is_kept = (starts >= 0) & (sizes <= np.minimum(len(run.data) - starts, LARGEST_ENVELOPE))
    begins = np.cumsum(counts) - counts
    octets = np.add.reduceat(np.where(is_kept, sizes, LARGEST_ENVELOPE + 1), begins)
    known = octets <= LARGEST_ENVELOPE
    found = np.full(len(first), NOT_KNOWN)
    if known.any():
        frames_known = known.repeat(counts)
        octets = octets[known]
        places = numbers(starts[frames_known], sizes[frames_known])
        begins = np.cumsum(octets) - octets
        weights = (np.arange(len(places)) - begins.repeat(octets) + 1).astype(np.uint64) * SPREAD
        weights = (weights ^ (weights >> np.uint64(29))) * MIX
        products = (np.frombuffer(run.data, np.uint8)[places].astype(np.uint64) + np.uint64(1)) * weights
        found[known] = (np.add.reduceat(products, begins) >> np.uint64(2)).astype(np.int64) + 1
    return found
