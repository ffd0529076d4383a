from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Phase, Regime


class Layout(NamedTuple):
    """A command of one mechanism (wire.md 7, 8): how its data are parsed and built, and which role may send it.

    - `phase`: when it may be sent
    - `sender`: "client" or "server"; None: both may send it
    - `last`: the sender's handshake ends with it
    - `sealed`: its data contain an encrypted box, so the command is not valid inside another box
    """

    name: str
    read: Callable[[Reader, Regime, Fields], None]
    build: Callable[[Fields], bytes]
    phase: Phase = Phase.HANDSHAKE
    sender: str | None = None
    last: bool = False
    sealed: bool = False


def read_nothing(reader: Reader, regime: Regime, fields: Fields) -> None:
    reader.rest("zmtp.trailing")


def read_opaque(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Store the first 256 octets of a command that has no layout as `data`."""
    fields["data"] = reader.rest("zmtp.command.data")[:256]


def build_nothing(fields: Fields) -> bytes:
    return b""
