"""Find the segments of a block that belong to the same flow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MULTIPLIERS = np.array([pow(0x9E3779B97F4A7C15, power, 1 << 64) for power in range(1, 10)], np.uint64)
"""Multipliers for the words of the longest key; odd numbers that are not small multiples of each other."""


def first_equal(keys: NDArray[np.void]) -> NDArray[np.int64]:
    """Return for each of `keys` (of equal length, a multiple of four octets) the index of the first equal key.

    Keys are hashed and then always compared, so the result is exact. Keys that collide with a different key, by chance
    or by an attacker's choice, are looked up in a dictionary.
    """
    count = len(keys)
    order = np.arange(count)
    width = keys.dtype.itemsize // 4
    bits = (4 * count).bit_length()
    hashes = keys.view(np.uint32).reshape(count, width).astype(np.uint64) @ MULTIPLIERS[:width]
    places = (hashes >> np.uint64(64 - bits)).astype(np.intp)
    table = np.empty(1 << bits, np.int64)
    table[places] = count
    np.minimum.at(table, places, order)
    first: NDArray[np.int64] = table[places]
    different = np.flatnonzero(keys != keys[first])
    if len(different):
        seen: dict[Any, int] = {}
        pairs = zip(keys[different].tolist(), different.tolist(), strict=True)
        first[different] = [seen.setdefault(key, index) for key, index in pairs]
    return first


def distinct(keys: NDArray[np.void]) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the distinct keys in order of first appearance, and for each key its index among them."""
    first = first_equal(keys)
    new = first == np.arange(len(keys))
    return keys[new].tolist(), (np.cumsum(new) - 1)[first]
