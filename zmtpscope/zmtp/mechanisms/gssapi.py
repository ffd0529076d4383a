"""GSSAPI (wire.md 8.4): tokens behind their length; READY in clear only with the plaintext option."""

from __future__ import annotations

from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout
from zmtpscope.zmtp.mechanism import Mechanism
from zmtpscope.zmtp.mechanisms.null import build_error, read_error
from zmtpscope.zmtp.metadata import build_metadata, read_metadata
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Phase, Regime


def read_token(reader: Reader, regime: Regime, fields: Fields) -> None:
    """INITIATE, MESSAGE: token length, token; nothing may follow."""
    start = reader.offset
    try:
        length = reader.u32("gssapi.token_length")
    except Cut:
        reader.finding("GSSAPI-01", start, reader.offset - start)
        return
    if length != reader.left:
        reader.finding("GSSAPI-01", start, 4)
    reader.skip("gssapi.token", min(length, reader.left))
    reader.rest("zmtp.trailing")


def build_token(fields: Fields) -> bytes:
    """From `token`."""
    token: bytes = fields["token"]
    return len(token).to_bytes(4, "big") + token


GSSAPI = Mechanism(
    "GSSAPI",
    (
        Layout("INITIATE", read_token, build_token),
        Layout("READY", read_metadata, build_metadata, last=True),
        Layout("ERROR", read_error, build_error),
        Layout("MESSAGE", read_token, build_token, Phase.TRAFFIC),
    ),
    steps={None: ("INITIATE", "READY")},
    seals=True,
    repeated="INITIATE",
    wraps_ready=True,
    may_send_nothing=True,
)
