"""Read topics as words of eight octets, so that many topics can be compared as columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.records.columns import Int64

UInt64 = NDArray[np.uint64]

LONGEST_TOPIC = 256
"""Octets of a topic or subscription to compare."""

WORD = 8

MASKS = np.array([(1 << 8 * size) - 1 for size in range(WORD + 1)], np.uint64)
"""Masks by number of octets in a word. The first octet of a word is the lowest."""

FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: odd, with its bits spread."""


def words_of(data: bytes, starts: Int64, sizes: Int64, count: int) -> list[UInt64]:
    """Return the first `count` words of each topic `data[start : start + size]`, padded with zeros. All words lie in
    `data`."""
    octets = np.frombuffer(data, np.uint8)
    windows = np.lib.stride_tricks.as_strided(octets, (len(octets) - WORD + 1, WORD), (1, 1), writeable=False)
    words = []
    for place in range(count):
        left = np.clip(sizes - WORD * place, 0, WORD)
        words.append(windows[starts + WORD * place].view("<u8")[:, 0] & MASKS[left])
    return words


def mixed(seeds: UInt64, words: list[UInt64]) -> UInt64:
    numbers = seeds
    for word in words:
        numbers = (numbers ^ word) * FACTOR
        numbers ^= numbers >> np.uint64(32)
    return numbers
