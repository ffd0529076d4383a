"""Converts the packets of a ring (TPACKET_V3) to pcapng blocks, many at once.

Conversion is in place, in a copy of the ring: before each packet the kernel leaves more room than the header of a
packet block needs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.pcapng import PACKET
from zmtpscope.export.pcapng import PACKET_OVERHEAD
from zmtpscope.live.capture.interfaces import LINK_TYPES
from zmtpscope.live.capture.packet_socket import (
    DEFAULT_VLAN_TYPE,
    VLAN_TAG_AT,
    VLAN_TAG_OCTETS,
    VLAN_TYPE_VALID,
    VLAN_VALID,
    Batch,
)

HEADER = np.dtype(
    [
        ("next", "u4"),
        ("seconds", "u4"),
        ("nanoseconds", "u4"),
        ("captured", "u4"),
        ("original", "u4"),
        ("status", "u4"),
        ("link_header", "u2"),
        ("network_header", "u2"),
        ("hash", "u4"),
        ("vlan_tag", "u4"),
        ("vlan_type", "u2"),
        ("padding", "V10"),
        # struct sockaddr_ll
        ("family", "u2"),
        ("protocol", ">u2"),
        ("interface", "i4"),
        ("hardware_type", "u2"),
    ]
)
"""struct tpacket3_hdr before each packet, and the address after it. Offsets are relative to its start."""
PACKET_FIELDS = ("kind", "length", "interface", "high", "low", "captured", "original")
"""Fields of an Enhanced Packet Block before its packet (draft-ietf-opsawg-pcapng, section 4.3)."""
PACKET_HEADER = np.dtype([(name, "<u4") for name in PACKET_FIELDS])
LENGTH = np.dtype("<u4")
TAG = np.dtype([("type", ">u2"), ("tag", ">u2")])
ADDRESSES = np.dtype(f"V{VLAN_TAG_AT}")


Numbering = Callable[[int, int, int], int]
"""Returns the number of an interface in the file, by index and hardware type, and adds to its count of packets."""


def packet_batch(octets: bytearray, headers: list[int], snap_length: int, number: Numbering) -> Batch:
    """Convert the packets whose headers start at `headers`, in place.

    After the last packet there must be free octets for the end of its block (`ring.ROOM_BEHIND`).
    """
    if not headers:
        return Batch([], np.zeros(0, np.int64))
    places = np.array(headers, np.int64)
    fields = _windows(octets, HEADER)[places]
    numbers, unknown = _numbers(fields["interface"], fields["hardware_type"], number)
    starts = places + fields["link_header"]
    captured, original = fields["captured"].astype(np.int64), fields["original"].astype(np.int64)
    if unknown is not None:  # packets of these link layers start at their IP header
        skipped = (fields["network_header"].astype(np.int64) - fields["link_header"]) * unknown
        starts += skipped
        captured = np.maximum(captured - skipped, 0)
        original = np.maximum(original - skipped, 0)
    is_tagged = fields["status"] & VLAN_VALID
    if is_tagged.any():
        tagged = np.flatnonzero((is_tagged != 0) & (captured >= VLAN_TAG_AT))
        _restore_tags(octets, starts[tagged], fields[tagged])
        starts[tagged] -= VLAN_TAG_OCTETS
        captured[tagged] += VLAN_TAG_OCTETS
        original[tagged] += VLAN_TAG_OCTETS
    np.minimum(captured, snap_length, captured)
    times = fields["seconds"].astype(np.int64) * 1_000_000_000 + fields["nanoseconds"]
    lengths = (captured + (PACKET_OVERHEAD + 3)) & -4
    begins = starts - PACKET_HEADER.itemsize
    ends = begins + lengths
    packet_headers = np.empty(len(places), PACKET_HEADER)
    columns = PACKET, lengths, numbers, times >> 32, times & 0xFFFFFFFF, captured, original
    for name, column in zip(PACKET_FIELDS, columns, strict=True):
        packet_headers[name] = column
    _windows(octets, PACKET_HEADER)[begins] = packet_headers
    windows = _windows(octets, LENGTH)
    windows[starts + captured] = 0  # the padding; the length field overwrites any excess
    windows[ends - LENGTH.itemsize] = lengths
    view = memoryview(octets)
    return Batch([bytes(view[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)], captured)


def _windows(octets: bytearray, form: np.dtype[np.void] | np.dtype[np.uint32]) -> NDArray[np.void]:
    """Return the octets as an array of overlapping elements of type `form`: one that begins at each octet."""
    return np.ndarray((len(octets) - form.itemsize + 1,), form, octets, strides=(1,))


def _restore_tags(octets: bytearray, starts: NDArray[np.int64], fields: NDArray[np.void]) -> None:
    """Insert the VLAN tags that the kernel removed, by moving the Ethernet addresses forward."""
    addresses = _windows(octets, ADDRESSES)
    addresses[starts - VLAN_TAG_OCTETS] = addresses[starts]
    tags = np.empty(len(fields), TAG)
    tags["type"] = np.where(fields["status"] & VLAN_TYPE_VALID, fields["vlan_type"], DEFAULT_VLAN_TYPE)
    tags["tag"] = fields["vlan_tag"]
    _windows(octets, TAG)[starts - VLAN_TAG_OCTETS + VLAN_TAG_AT] = tags


def _numbers(
    indexes: NDArray[np.int32], hardware: NDArray[np.uint16], number: Numbering
) -> tuple[NDArray[np.int64] | int, NDArray[np.bool_] | None]:
    """Return the interface number of each packet in the file, and a mask of packets with an unknown link layer, if
    any."""
    if (indexes == indexes[0]).all() and int(hardware[0]) in LINK_TYPES:
        return number(int(indexes[0]), int(hardware[0]), len(indexes)), None
    # in the order of their first packets
    found, firsts, which, counts = np.unique(indexes, return_index=True, return_inverse=True, return_counts=True)
    numbers = np.empty(len(found), np.int64)
    unknown = np.empty(len(found), bool)
    for place in np.argsort(firsts).tolist():
        kind = int(hardware[firsts[place]])
        numbers[place] = number(int(found[place]), kind, int(counts[place]))
        unknown[place] = kind not in LINK_TYPES
    return numbers[which], unknown[which] if unknown.any() else None
