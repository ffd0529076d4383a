"""Entries of the command table: how to parse and build a command's data, and when which role sends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Phase, Regime


class Layout(NamedTuple):
    """One command of one mechanism (wire.md 7, 8).

    `read` parses all octets after the name into fields; `build` makes these octets from fields. `sender` is the only
    role ("client", "server") that may send the command, or None for both. `last` marks the sender's last handshake
    command. `sealed`: the data contains a box, which is not valid inside another box.
    """

    name: str
    read: Callable[[Reader, Regime, Fields], None]
    build: Callable[[Fields], bytes]
    phase: Phase = Phase.HANDSHAKE
    sender: str | None = None
    last: bool = False
    sealed: bool = False


def read_nothing(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse a command without data; any octets become `zmtp.trailing`."""
    reader.rest("zmtp.trailing")


def read_opaque(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Store data without a layout as `data`, at most the first 256 octets."""
    fields["data"] = reader.rest("zmtp.command.data")[:256]


def build_nothing(fields: Fields) -> bytes:
    return b""
