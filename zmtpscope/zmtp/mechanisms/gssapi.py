"""GSSAPI (wire.md 8.4): tokens with a length prefix; READY is unencrypted only with the plaintext option."""

from __future__ import annotations

import re

from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout
from zmtpscope.zmtp.mechanism import Mechanism
from zmtpscope.zmtp.mechanisms.null import build_error, read_error
from zmtpscope.zmtp.metadata import build_metadata, read_metadata
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Phase, Regime

HEAD = 24

# RFC 2743 3.1: tag 60, length, OID of the mechanism; RFC 4121 4.1: kind of the Kerberos message
_KERBEROS = re.compile(rb"\x60(?:[\0-\x7f]|\x81.|\x82..|\x83...)\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02(..)", re.S)
_MESSAGES = {b"\1\0": "Kerberos 5 AP-REQ", b"\2\0": "Kerberos 5 AP-REP", b"\3\0": "Kerberos 5 KRB-ERROR"}


def kind_of_token(head: bytes) -> str | None:
    """Return the kind of a GSSAPI token from its first octets, such as "Kerberos 5 AP-REQ"; None if it is unknown."""
    kerberos = _KERBEROS.match(head)
    if kerberos is not None and kerberos[1] in _MESSAGES:
        return _MESSAGES[kerberos[1]]
    if head.startswith(b"\5\4"):  # RFC 4121 4.2.6.2
        return "Kerberos 5 wrap token"
    return "initial token" if head.startswith(b"\x60") else None


def read_token(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse INITIATE or MESSAGE: token length, token; further octets are an error."""
    start = reader.offset
    try:
        length = reader.u32("gssapi.token_length")
    except Cut:
        reader.finding("GSSAPI-01", start, reader.offset - start)
        return
    fields["token_size"] = length
    fields["token_kind"] = kind_of_token(reader.data[reader.position : min(reader.position + HEAD, reader.stop)])
    if length != reader.left:
        reader.finding("GSSAPI-01", start, 4)
    reader.skip("gssapi.token", min(length, reader.left))
    reader.rest("zmtp.trailing")


def build_token(fields: Fields) -> bytes:
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
