"""PLAIN (wire.md 8.2): HELLO with user name and password in clear, WELCOME, INITIATE, READY, ERROR."""

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
"""Of libzmq 4.3.0 to 4.3.6: name length and E lost to a hex escape (D23). What it refuses is said of any ERROR."""

MISSPELT_HELLO = Misspelling(b"\x05WELCOME", "HELLO", "PLAIN-07")
"""Of libzmq 4.3.0 and 4.3.1 (D39)."""


BARE_HELLO = re.compile(rb"hello", re.IGNORECASE)
"""How a command begins that may be a HELLO without the length of its name: what follows may be a password."""

FRAMED_HELLO = re.compile(rb"[\x01-\x1f]hello|\x05welcome|hello {3}", re.IGNORECASE)
"""How a message frame begins that may be a HELLO in the handshake, in whatever spelling; text does not begin so."""


def read_hello(reader: Reader, regime: Regime, fields: Fields) -> None:
    """HELLO: user name and password, each behind its length."""
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
        fields.pop("username", None)  # a length lies, so it may have taken in the password
        reader.finding("PLAIN-01")
        return
    if length:
        reader.finding("PLAIN-04", start, length)
    if reader.left:
        reader.finding("PLAIN-02", reader.offset, reader.left)
        reader.rest("zmtp.trailing")


def read_unknown(reader: Reader, regime: Regime, fields: Fields) -> None:
    """A handshake command that PLAIN does not have: perhaps a HELLO, and nobody knows where its password stands."""
    if reader.left:
        fields["password"] = reader.text("plain.password", reader.left)


def read_welcome(reader: Reader, regime: Regime, fields: Fields) -> None:
    """WELCOME: nothing behind the name."""
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
