"""ZRE nodes that find each other and talk, as packets: beacons, and the connection that each opens to the other."""

from __future__ import annotations

from dataclasses import replace

from tests.dissect.talks import SECOND
from tests.payloads import zre
from tests.peer_octets import hello, message, ping
from tests.traffic import Conversation, Datagram, Packet
from zmtpscope.records import to_text

START = 1_700_000_000_000_000_000
EVERYBODY = bytes([10, 0, 0, 255])
MAILBOX = 50_000


class Node:
    """A node of a network; `number` makes its name, its UUID and its address."""

    def __init__(self, number: int, groups: tuple[str, ...] = ()) -> None:
        self.name = "ABCDEF"[number]
        self.uuid = bytes([number] * 16)
        self.address = bytes([10, 0, 0, number + 1])
        self.endpoint = f"tcp://10.0.0.{number + 1}:{MAILBOX}"
        self.groups = groups
        self.sequence: dict[Node, int] = {}

    def beacon(self, time: int, port: int = MAILBOX, *, version: int = 1, address: bytes | None = None) -> Datagram:
        key = bytes(32) if version == 3 else b""
        octets = zre.beacon(self.uuid, port, version=version, key=key)
        return Datagram(octets, START + time, (address or self.address, 5670), (EVERYBODY, 5670))

    def connect(self, other: Node, time: int = 0, *, port: int = MAILBOX, status: int = 0) -> Conversation:
        """The connection on which this node speaks to the other, up to its HELLO."""
        ports = 40_000 + self.uuid[0] * 10 + other.uuid[0], port
        talk = Conversation(ports=ports, hosts=(self.address, other.address), start=START + time)
        talk.send(0, hello("DEALER", identity=to_text(b"\x01" + self.uuid)))
        talk.send(1, hello("ROUTER"))
        say(talk, zre.hello(self.name, self.groups, status=status, endpoint=self.endpoint))
        return talk


def say(talk: Conversation, *frames: bytes, after: int = 0) -> None:
    """The node that opened the connection sends a command after `after` nanoseconds of silence."""
    talk.wait(after)
    talk.send(0, message(*frames))


def silence(talk: Conversation, nanoseconds: int) -> None:
    """After a silence, a command arrives that has no effect."""
    talk.wait(nanoseconds)
    talk.send(0, ping())


def shifted(packets: list[Packet | Datagram], time: int) -> list[Packet | Datagram]:
    return [replace(packet, time=packet.time + time) for packet in packets]


__all__ = ["MAILBOX", "SECOND", "START", "Node", "say", "shifted", "silence"]
