"""Frames are found again behind much that is none: the rest of a large body of random octets."""

from __future__ import annotations

from random import Random

import pytest

from tests.dissect.talks import message
from zmtpscope.dissect.resync import WINDOW, Found, FrameSearch
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.regime import Framing

REST = Random(1).randbytes(2 * WINDOW)
"""What is left of a body, larger than the window in which every octet is looked at."""


def sealed(number: int, size: int) -> bytes:
    """A MESSAGE of CURVE with `size` octets in its box."""
    box = Random(number).randbytes(size)
    return build_frame(Framing.V2, b"\x07MESSAGE" + number.to_bytes(8) + box)


def search(octets: bytes, cuts: int, known: bool) -> Found | None:
    """What is found in these octets, in pieces of `cuts` octets."""
    found, frames = None, FrameSearch(Framing.V2, 0, known)
    for start in range(0, len(octets), cuts):
        found = found or frames.feed(octets[start : start + cuts])
    return found


@pytest.mark.parametrize("cuts", [100, 1000, 1448])
def test_frames_that_begin_with_a_segment(cuts: int) -> None:
    frames = FrameSearch(Framing.V2, 0, True)
    for start in range(0, len(REST), cuts):
        assert frames.feed(REST[start : start + cuts]) is None
    found = [frames.feed(message(b"from here on")) for _ in range(20)]
    assert next(filter(None, found)) == Found(Framing.V2, len(REST))


@pytest.mark.parametrize("size", [20, 300])
@pytest.mark.parametrize("cuts", [1, 7, 1448, 1 << 20])
def test_sealed_messages_wherever_they_begin(cuts: int, size: int) -> None:
    if cuts == 1:  # many pieces are slow, and the window is long
        octets, cuts = REST[: WINDOW + 5], 5
    else:
        octets = REST
    messages = b"".join(sealed(number, size) for number in range(3, 20))
    assert search(octets + messages, cuts, known=True) == Found(Framing.V2, len(octets))


def test_random_octets_alone_are_no_frames() -> None:
    assert search(REST, 1448, known=True) is None
