from __future__ import annotations

from zmtpscope.zmtp.framing import read_header_1, read_header_2
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Framing, Regime
from zmtpscope.zmtp.zws import read_header_zws


def read_header(reader: Reader, regime: Regime) -> tuple[int, int]:
    """Parse a frame header; return flags as in 3.x, and body size in octets. Raises `Cut` if the header is
    incomplete."""
    if regime.framing is Framing.ZWS:
        return read_header_zws(reader)
    return read_header_1(reader) if regime.is_old else read_header_2(reader, regime.has_commands)
