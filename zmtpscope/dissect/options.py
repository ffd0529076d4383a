"""Options of the analyser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from zmtpscope.zmtp.socket_types import USUAL_PARTNERS

if TYPE_CHECKING:
    from zmtpscope.curve_keys import Keys
    from zmtpscope.payloads.registry import Registry

DEFAULT_BODY_LIMIT = 16 << 20
MIN_KEPT = 64 << 10
"""Minimum octets of a message kept for dissection, regardless of the limit for bodies."""


class DecodeAs(NamedTuple):
    """A rule of `-d SELECTOR,zmtp[/VERSION[/MECHANISM[/TYPE]]][:PAYLOAD]`.

    It forces connections or datagrams to be read as ZMTP regardless of their first octets, or selects a payload
    dissector for them or for one topic. `selector` is "tcp.port", "udp.port", "conn" or "topic"; `value` is the port,
    the connection number or the topic. `payload` contains the name and the argument of a payload dissector.
    `socket_type` is the type of the side with the port, used if the capture lacks its own announcement.
    """

    selector: str
    value: int | bytes
    version: str | None = None
    mechanism: str | None = None
    payload: tuple[str, str | None] | None = None
    socket_type: str | None = None

    def matches(self, conn: int, ports: tuple[int, int]) -> bool:
        """Whether the rule applies to connection number `conn` between `ports`."""
        return self.value == conn if self.selector == "conn" else self.selector == "tcp.port" and self.value in ports

    def socket_types(self, ports: tuple[int, int]) -> tuple[str | None, str | None]:
        """Return the socket types of the sides with these ports: the type of the rule and its usual partner, if there
        is one.

        Both are None if the rule has no type, or if both sides have the port.
        """
        if self.socket_type is None or ports[0] == ports[1]:
            return None, None
        partner = USUAL_PARTNERS.get(self.socket_type)
        return (self.socket_type, partner) if self.value == ports[0] else (partner, self.socket_type)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the analyser.

    `bodies` selects the message bodies in the rows: "full" keeps messages of at most `body_limit` octets, "head" the
    first `head` octets of each frame, "none" nothing. If `records` is false, nothing is written, only counted in the
    summary. `frames` adds frame records, `details` the octets of greetings and commands for field trees, `index` the
    positions of stream octets in files, to make field trees later.
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
    """Keys to decrypt CURVE boxes."""
    payloads: Registry | None = None
    """Dissectors for the payloads of messages; None to disable."""

    @property
    def kept_limit(self) -> int:
        """Maximum octets of a message kept until it is complete.

        Applies even if bodies are not wanted: dissectors and the search for passwords need them.
        """
        return self.body_limit if self.payloads is None else max(self.body_limit, MIN_KEPT)

    @property
    def keeps_bodies(self) -> bool:
        """Whether any part of the analyser needs message bodies."""
        return self.payloads is not None or (self.records and self.bodies != "none")
