"""Numbers and sizes in sentences."""

from __future__ import annotations

import pytest

from zmtpscope.capture.statistics import CaptureStatistics
from zmtpscope.dissect import Summary
from zmtpscope.export.words import nothing_found, size
from zmtpscope.words import counted


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (0, "0 octets"),
        (1, "1 octet"),
        (999, "999 octets"),
        (17.55, "17.6 octets"),
        (1000, "1 kB"),
        (17_449, "17.4 kB"),
        (1_234_567, "1.23 MB"),
        (123_456_789, "123 MB"),
        (999_900_000, "1000 MB"),
        (10**13, "10 TB"),
        (10**16, "10000 TB"),
    ],
)
def test_sizes_have_three_digits(octets: float, expected: str) -> None:
    assert size(octets) == expected


def test_one_and_many() -> None:
    assert counted(1, "reply", "replies") == "1 reply"
    assert counted(2, "reply", "replies") == "2 replies"
    assert counted(0, "octet") == "0 octets"


def test_a_snap_length_may_be_why_there_is_no_zmtp() -> None:
    whole, cut = CaptureStatistics(packets=204), CaptureStatistics(packets=204, shortened=102)
    found = "no ZMTP found (204 packets, 1 TCP connection, 0 UDP datagrams)"
    assert nothing_found(Summary(other_tcp=1), whole) == (
        f"{found} -> if a port does carry ZMTP, add -d tcp.port==5555,zmtp"
    )
    assert nothing_found(Summary(other_tcp=1), cut) == (
        f"{found}; the snap length cut 102 of these packets -> capture whole packets (-s 0), from the start of "
        "connections if you can"
    )
