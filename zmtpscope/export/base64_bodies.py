"""Encode many short bodies in base64 at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pybase64 import b64encode

Int64 = NDArray[np.int64]

PADDING = 2
"""Maximum number of zeros that complete a group of three octets; every frame header is at least this long."""

EQUALS = ord("=")


def encode(octets: bytearray, places: Int64, sizes: Int64) -> list[bytes]:
    """Return the base64 of the `sizes[i]` octets from each `places[i]` on. The `PADDING` octets after each must be
    unused; they are set to zero."""
    # base64 goes by groups of three octets, the last of which is filled up with zeros. Of three texts, begun at the
    # first, second and third octet, there is one in which the groups of a body are its own.
    values = np.frombuffer(octets, np.uint8)
    behind = places + sizes
    values[behind] = values[behind + 1] = 0
    encoded = [b64encode(memoryview(octets)[skipped:]) for skipped in range(3)]
    text = np.frombuffer(bytearray().join(encoded), np.uint8)
    begins = np.cumsum([0, len(encoded[0]), len(encoded[1])])[places % 3] + places // 3 * 4
    ends = begins + (sizes + 2) // 3 * 4
    text[ends[sizes % 3 > 0] - 1] = EQUALS
    text[ends[sizes % 3 == 1] - 2] = EQUALS
    return _cut(text, begins, ends)


def _cut(text: NDArray[np.uint8], begins: Int64, ends: Int64) -> list[bytes]:
    """Return the octets `begins[i]..ends[i]` for each i; none of them is zero."""
    length = int(ends[0] - begins[0])
    if length and (ends - begins == length).all():
        windows: NDArray[np.bytes_] = np.ndarray((len(text) - length + 1,), f"S{length}", text, 0, (1,))
        cut: list[bytes] = windows[begins].tolist()
        return cut
    octets = text.tobytes()
    return [octets[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
