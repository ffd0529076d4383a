"""What a security mechanism is made of: the row that each has in the table `zmtpscope.zmtp.mechanisms.MECHANISMS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.zmtp import traffic
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout, read_opaque
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Regime

Read = Callable[[Reader, Regime, Fields], None]


class Misspelling(NamedTuple):
    """A command that an implementation begins with `octets` where length and name belong; it means `name`."""

    octets: bytes
    name: str
    finding: str | None
    """What is said of it where it is met, if anything."""


@dataclass(slots=True, eq=False)
class Mechanism:
    """One security mechanism (wire.md 8). A new one is a module with its layouts and one of these, in the table.

    `layouts` are its handshake commands and, where it seals messages, MESSAGE; `steps` the handshake commands of each
    role in order, None for a mechanism without roles.
    """

    name: str
    layouts: tuple[Layout, ...]
    steps: Mapping[str | None, tuple[str, ...]]
    seals: bool = False
    """Messages travel inside MESSAGE, in command frames or message frames (D2).

    Its layout may look at the first `content.MESSAGE_HEAD` octets of the body, name included; it skips the rest.
    """
    repeated: str | None = None
    """The handshake command that a side may send several times, one after the other."""
    wraps_ready: bool = False
    """READY may come inside MESSAGE, so the first MESSAGE ends the handshake of its side; in a command frame it is a
    command, not a message."""
    may_send_nothing: bool = False
    """A command frame without a body is a step of the handshake that has nothing to say."""
    misspellings: tuple[Misspelling, ...] = ()
    read_unknown: Read = read_opaque
    """How to read a handshake command without a layout."""
    nonce_at: Mapping[str, int] = field(default_factory=dict)
    """Where the short nonce of each command stands, counted from the first octet of the body."""
    clear_traffic: str | None = None
    """The finding for a message or traffic command in clear, behind the handshake."""
    error_of_client: str = "ZMTP3X-CMD-12"
    """The finding for an ERROR from the client, where only the server may send one."""

    commands: Mapping[str, Layout] = field(init=False, repr=False)
    """By name, those of traffic included."""

    def __post_init__(self) -> None:
        self.commands = {layout.name: layout for layout in (*self.layouts, *traffic.LAYOUTS)}
