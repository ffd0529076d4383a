"""Consecutive packet blocks of a pcapng file: compiled and in Python (seam P20)."""

from __future__ import annotations

import struct
from array import array

from hypothesis import given
from hypothesis import strategies as st

from tests.twins import twins
from zmtpscope.capture.packets import LARGEST_PACKET, LATEST
from zmtpscope.capture.pcapng import DROP_COUNT

PACKET_BLOCKS = twins("zmtpscope.capture.pcapng.packet_blocks")
OPTIONS = [b"", struct.pack("<HH4sI", 2, 4, b"flag", 0), struct.pack("<HHQ", DROP_COUNT, 8, 3), bytes(12)]
OPTIONS += [struct.pack("<HHI", 1, 1, 0) + OPTIONS[2], struct.pack("<HHI", 1, 999, 0) + OPTIONS[2]]


@st.composite
def blocks(draw: st.DrawFn, order: str) -> bytes:
    packet, options = draw(st.binary(max_size=9)), draw(st.sampled_from(OPTIONS))
    body = packet + bytes(-len(packet) % 4) + options
    length = draw(st.sampled_from([32 + len(body)] * 6 + [31, 32, 36, 2**31]))
    captured = draw(st.sampled_from([len(packet)] * 6 + [0, len(body) + 1, LARGEST_PACKET + 1, 2**32 - 1]))
    kind, interface = draw(st.sampled_from([6] * 6 + [3, 0])), draw(st.sampled_from([0, 0, 1, 2, 3, 2**31]))
    ticks = draw(st.sampled_from([5, LATEST // 1000, LATEST // 1000 + 1, LATEST, LATEST + 1, 2**64 - 1]))
    fields = kind, length, interface, ticks >> 32, ticks & 0xFFFFFFFF, captured, draw(st.integers(0, 20))
    trailer = draw(st.sampled_from([length] * 6 + [length ^ 4]))
    return struct.pack(order + "7I", *fields) + body + struct.pack(order + "I", trailer)


@given(order=st.sampled_from("<>"), data=st.data(), cut=st.integers(0, 40), room=st.integers(0, 7))
def test_p20_packet_blocks_are_the_same_compiled_and_in_python(
    order: str, data: st.DataObject, cut: int, room: int
) -> None:
    octets = b"".join(data.draw(st.lists(blocks(order), max_size=5)))
    octets = octets[: max(0, len(octets) - cut)]
    links, units = array("q", (1, 101, 113)), array("q", (1000, 1, 0))
    position = data.draw(st.sampled_from([0, 0, 0, 4, len(octets)]))
    found = [read(octets, position, order, links, units, 1 << 16, room) for read in PACKET_BLOCKS]
    assert all((each.tolist(), after) == (found[0][0].tolist(), found[0][1]) for each, after in found)
