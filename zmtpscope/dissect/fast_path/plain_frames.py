"""Scan the plain frames of many byte strings into one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.stream.runs import columns_of
from zmtpscope.zmtp.events import FrameColumns
from zmtpscope.zmtp.scanner import is_part_of_header, scan_2

FARTHEST = 1 << 62
"""Maximum position. Larger positions are reported as this value."""


class Scanned(NamedTuple):
    """The plain frames of several byte strings.

    - `counts[k]`: number of frames of string k
    - `places[k]`: index of its first header that was not read; it lies after the end of the string if the last body is
      incomplete
    - `is_plain[k]`: whether it contains only plain frames
    - `frames`: four rows (header, body, size, flags) with the frames of the first string, then of the second, and so
      on; indexes count from the start of their string
    """

    counts: Int64
    places: Int64
    is_plain: Bool
    frames: Int64


@compiled.where_possible
def scan(strings: Sequence[bytes], places: Int64) -> Scanned:
    """Scan the 2.0 or 3.x frames (wire.md 4.2, 6) of each string, from its index in `places` on."""
    counts, behind = np.zeros(len(strings), np.int64), places.copy()
    is_plain, frames = np.ones(len(strings), np.bool_), FrameColumns()
    for number, (octets, place) in enumerate(zip(strings, places.tolist(), strict=True)):
        before = len(frames)
        if place < len(octets):
            place = scan_2(octets, place, 0, frames)
            is_plain[number] = place >= len(octets) or is_part_of_header(octets, place)
        counts[number], behind[number] = len(frames) - before, min(place, FARTHEST)
    return Scanned(counts, behind, is_plain, np.array(columns_of(frames), np.int64))
