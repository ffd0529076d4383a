"""Findings about ZMTP over WebSocket (45/ZWS)."""

from zmtpscope.findings.kinds import FindingKind

KINDS = (
    FindingKind("ZWS-01", "error", "45/ZWS, Framing", "Empty WebSocket message: the flags octet is missing"),
    FindingKind("ZWS-02", "error", "45/ZWS, Framing", "Flags other than 00, 01 and 02"),
    FindingKind("ZWS-03", "error", "45/ZWS, Handshake", "The selected subprotocol was not offered"),
    FindingKind(
        "ZWS-04",
        "error",
        "45/ZWS, Implementation",
        "Text message on the WebSocket; ZWS uses binary messages",
    ),
    FindingKind(
        "ZWS-05",
        "note",
        "wire.md, 12",
        "WebSocket message compressed or changed by another extension; later messages of this side are not decoded",
        "disable permessage-deflate at one of the peers",
    ),
    FindingKind("ZWS-06", "error", "wire.md, 12", "The WebSocket frame violates RFC 6455"),
    FindingKind(
        "ZWS-07",
        "note",
        "wire.md, 12",
        "Fragmented WebSocket message above the limit; later messages of this side are not decoded",
    ),
    FindingKind(
        "ZWS-08",
        "error",
        "45/ZWS, Handshake",
        "Without a mechanism, the first message of a side must be its identity, and is not",
    ),
)
