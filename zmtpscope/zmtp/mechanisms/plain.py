"""PLAIN (wire.md 8.2): HELLO with unencrypted user name and password, WELCOME, INITIATE, READY, ERROR."""

from __future__ import annotations

import re

from zmtpscope.records import from_text
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout, build_nothing, read_nothing
from zmtpscope.zmtp.mechanism import Mechanism, Misspelling
from zmtpscope.zmtp.mechanisms.null import build_error, read_error
from zmtpscope.zmtp.metadata import build_metadata, read_metadata
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Regime

MISSPELT_ERROR = Misspelling(b"\x5eRROR", "ERROR", None)
"""ERROR of libzmq 4.3.0 to 4.3.6: a hex escape replaced length and E (D23). It is reported as any ERROR."""

MISSPELT_HELLO = Misspelling(b"\x05WELCOME", "HELLO", "PLAIN-07")
"""HELLO of libzmq 4.3.0 and 4.3.1 (D39)."""


BARE_HELLO = re.compile(rb"hello", re.IGNORECASE)
"""Possible HELLO without its name length; a password may follow."""

FRAMED_HELLO = re.compile(rb"[\x01-\x1f]hello|\x05welcome|hello {3}", re.IGNORECASE)
"""Starts a message frame that may be a HELLO in any spelling; no text starts like this."""


def read_hello(reader: Reader, regime: Regime, fields: Fields) -> None:
    try:
        start = reader.offset
        length = reader.u8("plain.username_len")
        fields["username"] = reader.text("plain.username", length)
        if length == 0:
            reader.finding("PLAIN-05", start, 1)
        length = reader.u8("plain.password_len")
        start = reader.offset
        fields["password"] = reader.text("plain.password", length)
    except Cut:
        fields.pop("username", None)  # a wrong length may have included the password
        reader.finding("PLAIN-01")
        return
    if length:
        reader.finding("PLAIN-04", start, length)
    if reader.left:
        reader.finding("PLAIN-02", reader.offset, reader.left)
        reader.rest("zmtp.trailing")


def read_unknown(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Store the data of an unknown command as a password, since it may be a misspelt HELLO."""
    if reader.left:
        fields["password"] = reader.text("plain.password", reader.left)


def read_welcome(reader: Reader, regime: Regime, fields: Fields) -> None:
    if reader.left:
        reader.finding("PLAIN-03", reader.offset, reader.left)
    read_nothing(reader, regime, fields)


def build_hello(fields: Fields) -> bytes:
    username, password = from_text(fields.get("username") or ""), from_text(fields.get("password") or "")
    return bytes([len(username)]) + username + bytes([len(password)]) + password


PLAIN = Mechanism(
    "PLAIN",
    (
        Layout("HELLO", read_hello, build_hello, sender="client"),
        Layout("WELCOME", read_welcome, build_nothing, sender="server"),
        Layout("INITIATE", read_metadata, build_metadata, sender="client", last=True),
        Layout("READY", read_metadata, build_metadata, sender="server", last=True),
        Layout("ERROR", read_error, build_error, sender="server"),
    ),
    steps={"client": ("HELLO", "INITIATE"), "server": ("WELCOME", "READY")},
    misspellings=(MISSPELT_ERROR, MISSPELT_HELLO),
    read_unknown=read_unknown,
)
