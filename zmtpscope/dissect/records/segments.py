"""The packets of a stream's octets, and their positions in files, for reading them again."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import Int64


class Segments(NamedTuple):
    """Consecutive pieces of one side, from stream offset `begin` on, as columns.

    Columns: octets, packet references (0: a hole), file offset of the packet, and its octets before (`heads`) and after
    (`tails`) the piece. `octets` joins the pieces that are in no file (`capture.packets.NOWHERE`).
    """

    stream: Stream
    begin: int
    lengths: Int64
    packets: Int64
    offsets: Int64
    heads: Int64
    tails: Int64
    octets: bytes
