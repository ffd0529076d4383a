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
    """A command name that one implementation misspells.

    `octets` occur in place of the length and characters of `name`.
    """

    octets: bytes
    name: str
    finding: str | None
    """Reports the misspelling; None: no finding."""


@dataclass(slots=True, eq=False)
class Mechanism:
    """One security mechanism (wire.md 8).

    `layouts` are its handshake commands, and MESSAGE if it encrypts. `steps` are the handshake commands of each role in
    order; the role is None if there are no roles.
    """

    name: str
    layouts: tuple[Layout, ...]
    steps: Mapping[str | None, tuple[str, ...]]
    seals: bool = False
    """Whether messages are encrypted in MESSAGE, a command frame or message frame (D2).

    The layout of MESSAGE may read only the first `content.MESSAGE_HEAD` octets of the body.
    """
    repeated: str | None = None
    """The handshake command that may be sent several times in a row."""
    wraps_ready: bool = False
    """Whether MESSAGE may wrap READY: a side's first MESSAGE then ends its handshake; in a command frame it is a
    command."""
    may_send_nothing: bool = False
    """Whether an empty command frame is a handshake step without data."""
    misspellings: tuple[Misspelling, ...] = ()
    read_unknown: Read = read_opaque
    nonce_at: Mapping[str, int] = field(default_factory=dict)
    """Index of the short nonce in the body of each command."""
    clear_traffic: str | None = None
    """The finding for an unencrypted message or traffic command after the handshake."""
    error_of_client: str = "ZMTP3X-CMD-12"
    """The finding for an ERROR from the client where only the server may send one."""

    commands: Mapping[str, Layout] = field(init=False, repr=False)
    """Layouts by command name, including the traffic commands."""

    def __post_init__(self) -> None:
        self.commands = {layout.name: layout for layout in (*self.layouts, *traffic.LAYOUTS)}
