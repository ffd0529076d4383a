"""One TCP connection: its two directions, when it began and how it ended."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from ipaddress import ip_address

from zmtpscope.dissect.arrivals import Arrival, BlockView
from zmtpscope.dissect.batch import Stream
from zmtpscope.dissect.dialogue import Dialogue
from zmtpscope.dissect.options import DecodeAs, Options
from zmtpscope.dissect.reassembly import TcpSide, reverse
from zmtpscope.dissect.sink import Sink


class Connection:
    """`tcp` are its two directions as reassembly sees them; side 0 opened it. `incarnation` sets it apart from those on
    the same ports that began no earlier (`incarnations.py`).

    What is said on it is a `Dialogue`, made when it is first needed: a port scan has many connections without.
    """

    opened_by: int | None = None
    listener: int | None = None
    """The side that was connected to; None where the first packet captured is no SYN, even if one comes later."""
    closed = False
    close_how = "open"
    closed_by: int | None = None
    dialogue: Dialogue | None = None

    def __init__(self, number: int, key: bytes, start: Arrival, incarnation: int, sink: Sink, options: Options) -> None:
        self.number = number
        self.key = key
        self.incarnation = incarnation
        self.sink = sink
        self.options = options
        self.start = self.end = start
        self.tcp = TcpSide(self, 0, key), TcpSide(self, 1, reverse(key))
        self.tcp[0].peer, self.tcp[1].peer = self.tcp[1], self.tcp[0]

    @property
    def ports(self) -> tuple[int, int]:
        """The ports of side 0 and side 1."""
        return int.from_bytes(self.key[-4:-2]), int.from_bytes(self.key[-2:])

    @property
    def first_to_close(self) -> int | None:
        """The side that sent the first FIN or RST; `closed_by` of a connection that was reset sent the RST."""
        if self.closed_by is None or self.close_how != "rst":
            return self.closed_by
        by, other = self.tcp[self.closed_by], self.tcp[1 - self.closed_by]
        return other.number if other.ended and not by.ended else by.number

    @property
    def is_to_itself(self) -> bool:
        """One and the same socket at both ends; all packets are those of one side then."""
        return self.tcp[0].key == self.tcp[1].key

    def close(self, how: str, closed_by: int | None, arrival: Arrival) -> None:
        """Nothing more will come: "fin", "rst", "open" (the capture ended, or the ports were reused) or "evicted"."""
        self.closed = True
        self.close_how, self.closed_by, self.end = how, closed_by, arrival

    def ended(self, side: int) -> bool:
        """The stream of `side` has ended for good: FIN or RST was captured."""
        return self.closed and (self.tcp[side].ended or self.close_how == "rst")

    def advance(self, view: BlockView) -> None:
        """Read what the block brought, then close the books where the connection ended."""
        if self.dialogue is None:
            forced = self.forced()
            if self.closed and forced is None and not (self.tcp[0].delivered or self.tcp[1].delivered):
                self.sink.summary.other_tcp += 1
                self._release()
                return
            self.dialogue = Dialogue(self, forced)
        self.dialogue.advance(view)
        if self.closed:
            self.dialogue.finish()
            self._release()

    def forced(self) -> DecodeAs | None:
        """What the user said of this connection, if anything."""
        if not self.options.decode_as:
            return None
        return next((rule for rule in self.options.decode_as if rule.matches(self.number, self.ports)), None)

    def ends(self) -> tuple[Stream, Stream]:
        """What the records of side 0 and of side 1 have in common."""
        first = stream_of(self.key, self.start.time, self.incarnation, self.number)
        number, conn_id, _, here, port, there, other = first
        return first, Stream(number, conn_id, 1, there, other, here, port)

    def _release(self) -> None:
        """Let go of everything that points back here, so that a closed connection is freed at once."""
        for tcp in self.tcp:
            del tcp.connection, tcp.peer
        if self.dialogue is not None:
            self.dialogue.release()
            del self.dialogue
        del self.tcp


def stream_of(key: bytes, began: int, incarnation: int, number: int | None, transport: str = "") -> Stream:
    """What the records of side 0 have in common; `key` is the source, the destination and their ports.

    `conn_id` is made of the endpoints and the time of the first packet, and of `incarnation` where that is not 0.
    """
    size = (len(key) - 4) // 2
    here, there = address(key[:size]), address(key[size : 2 * size])
    port, other = int.from_bytes(key[-4:-2]), int.from_bytes(key[-2:])
    identity = f"{transport}{here} {port} {there} {other} {began}{f' {incarnation}' * (incarnation > 0)}"
    return Stream(number, blake2b(identity.encode(), digest_size=8).hexdigest(), 0, here, port, there, other)


@lru_cache(maxsize=4096)
def address(octets: bytes) -> str:
    """An IPv4 or IPv6 address as people write it."""
    return str(ip_address(octets))
