"""What the caller of the analyser asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from zmtpscope.zmtp.socket_types import USUAL_PARTNERS

if TYPE_CHECKING:
    from zmtpscope.curve_keys import Keys
    from zmtpscope.payloads.registry import Registry

DEFAULT_BODY_LIMIT = 16 << 20
LEAST_KEPT = 64 << 10
"""Octets of a message that is looked into whatever the limit for bodies."""


class DecodeAs(NamedTuple):
    """`-d SELECTOR,zmtp[/VERSION[/MECHANISM[/TYPE]]][:PAYLOAD]`: connections that are read as ZMTP whatever their first
    octets say, datagrams, or messages of one topic; and what reads the messages.

    `selector` is "tcp.port", "udp.port", "conn" or "topic", `value` the port, the connection number or the octets of
    the topic. `payload` is the name of a payload dissector and the argument for it. `socket_type` is that of the side
    with the port, where the capture lacks what the side said of itself.
    """

    selector: str
    value: int | bytes
    version: str | None = None
    mechanism: str | None = None
    payload: tuple[str, str | None] | None = None
    socket_type: str | None = None

    def matches(self, conn: int, ports: tuple[int, int]) -> bool:
        """Whether connection number `conn` between `ports` is meant."""
        return self.value == conn if self.selector == "conn" else self.selector == "tcp.port" and self.value in ports

    def socket_types(self, ports: tuple[int, int]) -> tuple[str | None, str | None]:
        """What the sides with these ports are by this: the one that has the port, and the other as far as that follows.
        None where nothing was said, or where both have the port."""
        if self.socket_type is None or ports[0] == ports[1]:
            return None, None
        partner = USUAL_PARTNERS.get(self.socket_type)
        return (self.socket_type, partner) if self.value == ports[0] else (partner, self.socket_type)


@dataclass(frozen=True, slots=True)
class Options:
    """`bodies` is "full", "head" or "none": what of message bodies the rows carry.

    "full" keeps messages of at most `body_limit` octets, "head" the first `head` octets of each frame. With `records`
    false nothing is written, only counted in the summary. `frames` asks for frame records, `details` for the octets
    of greetings and commands, so that field trees can be made, `index` for what it takes to make them later: where the
    octets of streams stand in files.
    """

    bodies: str = "full"
    body_limit: int = DEFAULT_BODY_LIMIT
    head: int = 0
    records: bool = True
    frames: bool = False
    details: bool = False
    index: bool = False
    decode_as: tuple[DecodeAs, ...] = ()
    show_secrets: bool = False
    keys: Keys | None = None
    """Open the boxes of CURVE with these."""
    payloads: Registry | None = None
    """Who is asked what rides inside messages; None: nobody."""

    @property
    def kept_limit(self) -> int:
        """Octets of a message that are kept until it is whole, where its bodies are: also of one whose bodies are not
        wanted, what rides inside may be, and what is a password in it has to be known."""
        return self.body_limit if self.payloads is None else max(self.body_limit, LEAST_KEPT)

    @property
    def keeps_bodies(self) -> bool:
        """Whether somebody may want the octets of messages."""
        return self.payloads is not None or (self.records and self.bodies != "none")
