"""Divide files, or the connections with most data, evenly among partitions.

Hashes divide thousands of connections evenly, but not twenty: two partitions would often get twelve and eight.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from zmtpscope.capture import SegmentBlock, reopen_captures
from zmtpscope.spark.flows import Endpoints, FlowFilter, reverse

SAMPLED_FILES = 8
BLOCK_SIZE, FEWEST_BLOCKS, MAX_BLOCKS = 1 << 20, 8, 64
"""Octets of a block, and blocks sampled in all files."""
SAMPLED_SHARE = 8
"""One part in this many of all files is sampled at most, but at least the minimum number of blocks."""
COST_OF_SEGMENT = 64
LARGE_TASK, COST_OF_FILE = 64 << 20, 1 << 18
"""Octets at which a task is full, and the cost of opening a file, as a number of octets."""
FLOWS_OF_A_PARTITION = 32
"""Number of large flows that are assigned to each partition; smaller ones are hashed."""


def large_flows(
    files: Sequence[str], octets: int, partitions: int, endpoints: tuple[Endpoints, ...]
) -> dict[bytes, int]:
    """Return the partition of each connection with much data, by flow key, from a sample of files of `octets` in total.

    The largest connection is assigned first, each to the partition with the least data so far. All UDP is in partition
    0.
    """
    blocks = max(FEWEST_BLOCKS, min(octets // SAMPLED_SHARE // BLOCK_SIZE, MAX_BLOCKS))
    rates, datagrams = _sampled_rates(_sample(files, blocks), FlowFilter(0, 1, endpoints))
    loads = [datagrams, *[0.0] * (partitions - 1)]
    found: dict[bytes, int] = {}
    for key in sorted(rates, key=rates.__getitem__, reverse=True)[: FLOWS_OF_A_PARTITION * partitions]:
        least = min(range(partitions), key=loads.__getitem__)
        loads[least] += rates[key]
        found[key] = found[reverse(key)] = least
    return found


def file_tasks(sizes: Sequence[int], least: int) -> list[range]:
    """Divide files of these sizes among tasks, as ranges of indexes: at least `least` tasks, if there is
    enough data."""
    costs = [size + COST_OF_FILE for size in sizes]
    share = min(LARGE_TASK, sum(costs) // least)
    tasks, begin, octets = [], 0, 0
    for end, cost in enumerate(costs, 1):
        octets += cost
        if octets >= share or end == len(costs):
            tasks.append(range(begin, end))
            begin, octets = end, 0
    return tasks


def _sample(files: Sequence[str], blocks: int) -> Iterator[SegmentBlock]:
    some = files[:: -(-len(files) // SAMPLED_FILES)]
    for file in some:
        yield from islice(reopen_captures([file], block_size=BLOCK_SIZE), -(-blocks // len(some)))


def _sampled_rates(sample: Iterator[SegmentBlock], wanted: FlowFilter) -> tuple[dict[bytes, float], float]:
    """Return the cost per block of each connection since its first block, and of all datagrams.

    The key of a connection is the smaller of its two flow keys.
    """
    costs: dict[bytes, float] = defaultdict(float)
    first: dict[bytes, int] = {}
    datagrams, number = 0, 0
    for number, each in enumerate(sample):
        block = wanted.select(each)
        of_flows = np.bincount(block.flows, block.stops - block.starts + COST_OF_SEGMENT, len(block.keys))
        for key, cost in zip(block.keys, of_flows.tolist(), strict=True):
            connection = min(key, reverse(key))
            costs[connection] += cost
            first.setdefault(connection, number)
        datagrams += int((block.datagrams.stops - block.datagrams.starts + COST_OF_SEGMENT).sum())
    return {key: cost / (number + 1 - first[key]) for key, cost in costs.items()}, datagrams / (number + 1)
