"""Select the connections that belong to a partition and match the options `port` and `host`.

Both directions of a connection belong to the same partition, in every process. All UDP belongs to partition 0, because
the analysis of a datagram may depend on datagrams of other sockets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.segments import Mask, SegmentBlock

Words = NDArray[np.uint64]

LENGTHS = (12, 36)
"""Octets of an IPv4 and of an IPv6 key (`SegmentBlock.keys`)."""
MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
SHIFTS = np.array([30, 27, 31], np.uint64)
"""The finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): each input
bit changes half of the output bits."""


class Endpoints(NamedTuple):
    """Ports or addresses, as octets of flow keys, one of which a connection must have."""

    values: frozenset[bytes]
    are_ports: bool

    def select(self, keys: Sequence[bytes]) -> Mask:
        both = _ports if self.are_ports else _addresses
        return np.array([not self.values.isdisjoint(both(key)) for key in keys], np.bool_)


def _ports(key: bytes) -> tuple[bytes, bytes]:
    return key[-4:-2], key[-2:]


def _addresses(key: bytes) -> tuple[bytes, bytes]:
    size = (len(key) - 4) // 2
    return key[:size], key[size:-4]


def of_ports(ports: Collection[int]) -> Endpoints:
    return Endpoints(frozenset(port.to_bytes(2, "big") for port in ports), are_ports=True)


def of_hosts(hosts: Collection[bytes]) -> Endpoints:
    return Endpoints(frozenset(hosts), are_ports=False)


def flow_conditions(ports: Collection[int], hosts: Collection[bytes]) -> tuple[Endpoints, ...]:
    """Return the conditions for the options `port` and `host`. An option without values sets no condition."""
    return (*([of_ports(ports)] if ports else []), *([of_hosts(hosts)] if hosts else []))


class FlowFilter(NamedTuple):
    partition: int
    partitions: int
    endpoints: tuple[Endpoints, ...]
    """Endpoints that a flow must all meet."""
    large: Mapping[bytes, int] = MappingProxyType({})
    """Partition of each flow with much data (`balance.py`). Other flows are hashed."""

    def select(self, block: SegmentBlock) -> SegmentBlock:
        """Select the packets of one partition. All datagrams belong to the first partition."""
        if self.partitions == 1 and not self.endpoints:
            return block
        chosen: Mask = np.ones(len(block.keys), np.bool_)
        if self.partitions > 1:
            chosen = self._partitions_of(block.keys) == self.partition
        datagrams: Mask = np.full(len(block.datagrams.keys), self.partition == 0)
        for each in self.endpoints:
            chosen &= each.select(block.keys)
            datagrams &= each.select(block.datagrams.keys)
        return block.select(chosen, datagrams=datagrams)

    def _partitions_of(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        numbers = [self.large.get(key, -1) for key in keys]
        others = [key for key, number in zip(keys, numbers, strict=True) if number < 0]
        found = np.array(numbers, np.int64)
        if others:
            found[found < 0] = partitions_of(others, self.partitions)
        return found


def reverse(key: bytes) -> bytes:
    here, there = _addresses(key)
    return there + here + key[-2:] + key[-4:-2]


def partitions_of(keys: Sequence[bytes], partitions: int) -> NDArray[np.int64]:
    """Return the partition of each TCP flow, 0 to `partitions` - 1."""
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
    """Return a hash of each flow key that is equal for both directions: the sum of the hashes of both sockets."""
    size = (table.shape[1] - 4) // 2
    here = np.hstack((table[:, :size], table[:, -4:-2]))
    there = np.hstack((table[:, size : 2 * size], table[:, -2:]))
    return _mixed(_of_socket(here) + _of_socket(there))


def _of_socket(octets: NDArray[np.uint8]) -> Words:
    """Return a hash of each socket (address and port), computed from 16-bit words."""
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
