"""Which packets carried the octets of a stream, and where these stand in their files: for who reads them again."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import Int64


class Segments(NamedTuple):
    """Consecutive pieces of one side of a connection, the first from stream offset `begin` on, an entry for each in
    every column: octets, packet references (0: a hole), offsets in the file of the packet, and how many octets of the
    packet stand in front of the piece there (`heads`) and behind it (`tails`). Of pieces that stand nowhere
    (`capture.packets.NOWHERE`) `octets` has those, one behind the other."""

    stream: Stream
    begin: int
    lengths: Int64
    packets: Int64
    offsets: Int64
    heads: Int64
    tails: Int64
    octets: bytes
