"""Which partition a flow belongs to: both directions of a connection to the same one, in every process.

All UDP is in partition 0: what is known of a datagram may depend on those to and from other sockets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.segments import SegmentBlock

Words = NDArray[np.uint64]

LENGTHS = (12, 36)
"""Octets of a key of IPv4 and of IPv6 (`SegmentBlock.keys`)."""
MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
SHIFTS = np.array([30, 27, 31], np.uint64)
"""The finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): each bit of
what goes in changes half of those that come out."""


def select_partition(block: SegmentBlock, partition: int, partitions: int) -> SegmentBlock:
    """What `partition` of so many has of a block: its flows, and all datagrams if it is the first."""
    if partitions == 1:
        return block
    return block.select(partitions_of(block.keys, partitions) == partition, datagrams=partition == 0)


def partitions_of(keys: Sequence[bytes], partitions: int) -> NDArray[np.int64]:
    """The number of the partition, 0 to `partitions` - 1, of each TCP flow."""
    numbers = np.empty(len(keys), np.int64)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    for length in LENGTHS:
        chosen = np.flatnonzero(lengths == length)
        if len(chosen):
            octets = b"".join([keys[index] for index in chosen.tolist()])
            table = np.frombuffer(octets, np.uint8).reshape(-1, length)
            numbers[chosen] = (_hashes(table) % np.uint64(partitions)).astype(np.int64)
    return numbers


def _hashes(table: NDArray[np.uint8]) -> Words:
    """A hash of each key that is the same for its reverse: the sum of those of both sockets."""
    size = (table.shape[1] - 4) // 2
    here = np.hstack((table[:, :size], table[:, -4:-2]))
    there = np.hstack((table[:, size : 2 * size], table[:, -2:]))
    return _mixed(_of_socket(here) + _of_socket(there))


def _of_socket(octets: NDArray[np.uint8]) -> Words:
    """A hash of address and port, two octets after two."""
    words = np.ascontiguousarray(octets).view(">u2").astype(np.uint64)
    hashes = np.zeros(len(words), np.uint64)
    for column in words.T:
        hashes = _mixed((hashes << np.uint64(1)) + hashes + column + np.uint64(1))
    return hashes


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> SHIFTS[0])) * MULTIPLIERS[0]
    words = (words ^ (words >> SHIFTS[1])) * MULTIPLIERS[1]
    mixed: Words = words ^ (words >> SHIFTS[2])
    return mixed
