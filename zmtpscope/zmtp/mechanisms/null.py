"""NULL (wire.md 7.3, 8.1): READY with metadata, or ERROR."""

from __future__ import annotations

from zmtpscope.records import from_text
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout
from zmtpscope.zmtp.mechanism import Mechanism
from zmtpscope.zmtp.metadata import build_metadata, read_metadata
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Regime

STATUS = {
    "300": "temporary failure of authentication",
    "400": "authentication refused",
    "500": "internal error of authentication",
}
"""27/ZAP status codes, which libzmq sends as the reason of an ERROR."""

STRAY_REASON_LENGTH = 0x20
"""Reason length that CURVE servers of libzmq 4.1.0 to 4.2.2 send (D42)."""


def read_error(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse ERROR of any mechanism: reason length, reason."""
    start = reader.offset
    try:
        length = reader.u8("zmtp.error.reason_length")
    except Cut:
        reader.finding("NULL-02")
        return
    announced, length = length, min(length, reader.left)
    fits = announced == reader.left
    reason = fields["reason"] = reader.text("zmtp.error.reason", length)
    if not fits:
        fits = announced == STRAY_REASON_LENGTH and length == 3 and reason.isdigit()
        reader.finding("NULL-02", start, 1, "note" if fits else None)
    if fits and reason in STATUS:
        reader.finding("NULL-03", start + 1, length)
    if any(not " " <= character <= "~" for character in reason):
        reader.finding("NULL-07", start + 1, length)
    reader.rest("zmtp.trailing")


def build_error(fields: Fields) -> bytes:
    reason = from_text(fields.get("reason") or "")
    return bytes([len(reason)]) + reason


NULL = Mechanism(
    "NULL",
    (
        Layout("READY", read_metadata, build_metadata, last=True),
        Layout("ERROR", read_error, build_error),
    ),
    steps={None: ("READY",)},
)
