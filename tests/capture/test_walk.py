"""From one record of a pcap file to the next: compiled and in Python (seam P20)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import twins

WALKS = twins("zmtpscope.capture.pcap.walk")
Walk = Callable[[bytes, int, str, int], tuple[Any, int]]


def record(order: str, header: int, captured: int) -> bytes:
    return struct.pack(order + "4I", 1, 2, captured, captured).ljust(header, b"\0") + bytes(min(captured, 300))


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize(("order", "header"), [("<", 16), (">", 16), ("<", 24)])
def test_records_are_found_by_their_lengths(walk: Walk, order: str, header: int) -> None:
    """Up to the one that reaches beyond the octets, and no further."""
    lengths = [0, 60, 1, 256, 300, 77] * 1000
    octets = bytes(24) + b"".join(record(order, header, length) for length in lengths)
    begins = [24]
    for length in lengths:
        begins.append(begins[-1] + header + length)
    for cut in (0, 1, 76, 77 + header, 78 + header):
        records, position = walk(octets[: len(octets) - cut], 24, order, header)
        whole = [begin for begin in begins[:-1] if begin + header <= len(octets) - cut]
        assert records.tolist() == whole
        assert position == begins[len(whole)]


@given(st.lists(st.sampled_from([0, 1, 200, 2**31, 2**32 - 1]), max_size=6), st.binary(max_size=40), st.integers(0, 20))
def test_p20_the_walk_compiled_is_that_in_python(lengths: list[int], rest: bytes, position: int) -> None:
    octets = b"".join(record("<", 16, length) for length in lengths) + rest
    for order in "<>":
        for header in (16, 24):
            found = [walk(octets, position, order, header) for walk in WALKS]
            assert [(records.tolist(), behind) for records, behind in found] == [
                (found[0][0].tolist(), found[0][1])
            ] * len(WALKS)
