"""The records of a pcap file: compiled and in Python (seam P20)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import twins
from zmtpscope.capture.packets import LARGEST_PACKET

RECORDS = twins("zmtpscope.capture.pcap.records")
Records = Callable[[bytes, int, str, int, int, int], tuple[Any, int]]
MANY = 1 << 62


def record(order: str, header: int, captured: int, original: int = 0, time: tuple[int, int] = (1, 2)) -> bytes:
    head = struct.pack(order + "4I", *time, captured, original or captured)
    return head.ljust(header, b"\0") + bytes(min(captured, 300))


@pytest.mark.parametrize("records", RECORDS)
@pytest.mark.parametrize(("order", "header"), [("<", 16), (">", 16), ("<", 24)])
def test_records_are_found_by_their_lengths(records: Records, order: str, header: int) -> None:
    """Up to the first record that is incomplete, and at most `room`."""
    lengths = [0, 60, 1, 256, 300, 77] * 1000
    octets = bytes(24) + b"".join(record(order, header, length) for length in lengths)
    begins = [24]
    for length in lengths:
        begins.append(begins[-1] + header + length)
    for cut, room in ((0, MANY), (1, MANY), (76, MANY), (77 + header, MANY), (78 + header, MANY), (0, 7), (1, 0)):
        (starts, stops, _, _), position = records(octets[: len(octets) - cut], 24, order, 1000, header, room)
        whole = [begin for begin in begins[1:] if begin <= len(octets) - cut][:room]
        assert stops.tolist() == whole
        assert (stops - starts).tolist() == lengths[: len(whole)]
        assert position == begins[len(whole)]


@pytest.mark.parametrize("records", RECORDS)
def test_a_record_has_a_time_and_octets_that_were_not_captured(records: Records) -> None:
    octets = record(">", 16, 60, 1500, (2**32 - 1, 999_999)) + record(">", 16, 60, 40)
    (_, _, missing, times), _ = records(octets, 0, ">", 1000, 16, MANY)
    assert missing.tolist() == [1440, 0]
    assert times.tolist() == [(2**32 - 1) * 1_000_000_000 + 999_999_000, 1_000_002_000]


@given(
    st.lists(st.sampled_from([0, 1, 200, LARGEST_PACKET + 1, 2**31, 2**32 - 1]), max_size=6),
    st.binary(max_size=40),
    st.integers(0, 20),
    st.integers(0, 7),
)
def test_p20_records_are_the_same_compiled_and_in_python(
    lengths: list[int], rest: bytes, position: int, room: int
) -> None:
    octets = b"".join(record("<", 16, length) for length in lengths) + rest
    for order in "<>":
        for header in (16, 24):
            found = [records(octets, position, order, 1, header, room) for records in RECORDS]
            assert all((each.tolist(), after) == (found[0][0].tolist(), found[0][1]) for each, after in found)
