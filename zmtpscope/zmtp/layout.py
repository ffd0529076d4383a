"""What the table of commands says about each one: how to read and build its data, when and by whom it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Phase, Regime


class Layout(NamedTuple):
    """One command of one mechanism (wire.md 7, 8).

    `read` takes everything behind the name and fills the fields; `build` makes these octets from fields. `sender` is
    the role ("client", "server") that may send it, None where both may. `last` marks the sender's last handshake
    command. `sealed`: the data holds a box; inside of another box it means nothing.
    """

    name: str
    read: Callable[[Reader, Regime, Fields], None]
    build: Callable[[Fields], bytes]
    phase: Phase = Phase.HANDSHAKE
    sender: str | None = None
    last: bool = False
    sealed: bool = False


def read_nothing(reader: Reader, regime: Regime, fields: Fields) -> None:
    """A command without data; octets there are `zmtp.trailing`."""
    reader.rest("zmtp.trailing")


def read_opaque(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Data that has no layout here: kept as `data`, at most the first 256 octets."""
    fields["data"] = reader.rest("zmtp.command.data")[:256]


def build_nothing(fields: Fields) -> bytes:
    return b""
