"""Captures as lists: packets as in a file, and the TCP segments in them, which can be written again.

A segment becomes a packet of raw IP with correct lengths and checksums after any change.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from tests.capture.containers import Packet, Segment, captures_of, read
from tests.traffic import Packet as Scripted
from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.statistics import FileReports
from zmtpscope.live.recording.segments import LARGEST_PAYLOAD, Direction

RAW_IP = 101
MODULUS = 1 << 32
Endpoint = tuple[str, int]


def packets_of(path: Path) -> list[Packet]:
    return [
        Packet(block.data[start:stop], time, link, stop - start + missing)
        for block in CaptureFile(str(path)).blocks(1 << 20, FileReports())
        for link, start, stop, missing, time, *_ in zip(*map(list, block.columns()), strict=True)
    ]


def segments_of(folder: Path, octets: bytes) -> list[Segment]:
    """Return the TCP segments of a capture, without its other packets."""
    return read(captures_of(folder, octets))[0]


def scripted(packets: Sequence[Scripted]) -> list[Segment]:
    return [
        Segment(0, 0, each.time, each.key, each.sequence, each.acknowledgment, each.flags, each.payload, each.cut)
        for each in packets
    ]


def reverse(key: bytes) -> bytes:
    """The flow key of the other direction."""
    half = (len(key) - 4) // 2
    return key[half : 2 * half] + key[:half] + key[-2:] + key[-4:-2]


@functools.cache
def endpoints(key: bytes) -> tuple[Endpoint, Endpoint]:
    """Addresses and ports of sender and receiver."""
    half = (len(key) - 4) // 2
    source, target = (str(ipaddress.ip_address(address)) for address in (key[:half], key[half : 2 * half]))
    return (source, int.from_bytes(key[-4:-2])), (target, int.from_bytes(key[-2:]))


def framed(segment: Segment) -> Packet:
    """A segment as a packet; of one that was cut the octets that were captured."""
    ours, theirs = Direction.pair(*endpoints(segment.key), segment.sequence)
    theirs.next = segment.acknowledgment
    whole = (segment.payload + bytes(min(segment.cut, LARGEST_PAYLOAD)))[:LARGEST_PAYLOAD]
    octets = ours.segment(segment.flags & 0xFF, theirs, whole)
    captured = len(octets) - max(0, len(whole) - len(segment.payload))
    return Packet(octets[:captured], max(0, segment.time), RAW_IP, len(octets))
