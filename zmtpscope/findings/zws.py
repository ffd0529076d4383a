"""ZMTP over WebSocket (45/ZWS)."""

from zmtpscope.findings.kinds import FindingKind

KINDS = (
    FindingKind("ZWS-01", "error", "45/ZWS, Framing", "A WebSocket message is empty: its flags octet is missing"),
    FindingKind("ZWS-02", "error", "45/ZWS, Framing", "The flags are none of 00, 01 and 02"),
    FindingKind("ZWS-03", "error", "45/ZWS, Handshake", "The chosen sub-protocol was not offered"),
    FindingKind(
        "ZWS-04",
        "error",
        "45/ZWS, Implementation",
        "A text message travels on the WebSocket; ZWS uses binary ones",
    ),
    FindingKind(
        "ZWS-05",
        "note",
        "wire.md, 12",
        "A WebSocket message is compressed, or changed by another extension; nothing behind it is read of this side",
        "switch permessage-deflate off at one of the peers to see what they say",
    ),
    FindingKind("ZWS-06", "error", "wire.md, 12", "The WebSocket frame is none that RFC 6455 allows"),
    FindingKind(
        "ZWS-07",
        "note",
        "wire.md, 12",
        "A message in several WebSocket frames is too large to be put together; nothing behind it is read of this side",
    ),
    FindingKind(
        "ZWS-08",
        "error",
        "45/ZWS, Handshake",
        "The first message of a side without a mechanism is no identity",
    ),
)
