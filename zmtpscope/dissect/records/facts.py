"""What is known of one connection or flow that findings about several need: plain values, which can be pickled.

`comparison.py` evaluates them, in the run that met them or behind many workers. The first field of each fact is
`arrival`; its ordinal is that of the segment that decided it, by which facts are put in order, whatever gave out the
ordinals. All else that is compared across connections is a `Stamp`, since ordinals of several workers say nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from zmtpscope.dissect.arrivals import Arrival, Stamp, stamp
from zmtpscope.dissect.identity import Stream, stream_of
from zmtpscope.dissect.tcp.connection import Connection

Endpoint = tuple[str, int]
"""Address and port that were connected to."""


class ConnectionIdentity(NamedTuple):
    """A TCP connection by its flow key, and what sets it apart from others of that key (`identity.py`)."""

    key: bytes
    start: Stamp
    """Its first packet."""
    incarnation: int
    number: int | None

    @property
    def stream(self) -> Stream:
        """What the records of side 0 have in common."""
        return stream_of(self.key, self.start.time, self.incarnation, self.number)


class Attempt(NamedTuple):
    """A TCP connection whose SYN was captured, once it is over; `outcome` is one of `attempts.py`. `last` is the last
    SYN of the client, of which there were `syns`."""

    arrival: Arrival
    connection: ConnectionIdentity
    outcome: str
    last: Stamp
    syns: int

    @property
    def pair(self) -> bytes:
        """Client address, address and port that were connected to."""
        key = self.connection.key
        return key[:-4] + key[-2:]


class GaveWay(NamedTuple):
    """A connection was given up for a newer one, although its end had not come; `arrival` is its last packet."""

    arrival: Arrival
    connection: ConnectionIdentity


class ClockWentBack(NamedTuple):
    """In one block `times` packets are stamped before the one in front of them on their connection, `most` by most:
    `ns`. The last one is `arrival`."""

    arrival: Arrival
    most: Stamp
    ns: int
    times: int


class Relayed(NamedTuple):
    """A client asked a proxy to connect it to `target`, once its connection is over; `refusal` is why the proxy did
    not, None if it did, and if ZMTP followed. `client` is the side of the client."""

    arrival: Arrival
    connection: ConnectionIdentity
    client: int
    protocol: str
    target: str
    refusal: str | None


class WithoutZmtp(NamedTuple):
    """A connection of TLS, or of a WebSocket without the sub-protocol of ZWS, once it is over: it matters if others
    speak ZMTP to the same endpoint. `client` is the side of the client, `finding` the id of what it raises, `status`
    the answer to a WebSocket, and `closed_by` the side that closed first, if one did."""

    arrival: Arrival
    connection: ConnectionIdentity
    client: int
    finding: str
    status: str
    closed_by: int | None


class Spoke(NamedTuple):
    """Somebody spoke ZMTP with an endpoint, the first time in this run."""

    arrival: Arrival
    endpoint: Endpoint


class Origin(NamedTuple):
    """How a connection began. `listener` is the side that was connected to, None where that is not known; then `stream`
    is that of whoever sent first.

    `initial` is the sequence number of the client's SYN, -1 where there was none: the same TCP connection that was
    captured in two places under two addresses (NAT) has it in both.
    """

    stream: Stream
    start: Stamp
    listener: int | None
    initial: int

    @property
    def endpoint(self) -> Endpoint:
        """What was connected to."""
        return self.stream.dst_ip, self.stream.dst_port

    @property
    def pair(self) -> tuple[str, Endpoint]:
        """Client address and endpoint."""
        return self.stream.src_ip, self.endpoint


class Located(NamedTuple):
    """A greeting or command of `side` at offsets `start..stop` of `source`."""

    side: int
    source: int
    start: int
    stop: int
    record: str


class Said(NamedTuple):
    """Something that was said on a connection and may matter to others; `kind` is a key of `endpoints.EVALUATE`.

    `unit` is what says it (of what is over, the first greeting); what `value` is depends on the kind.
    """

    arrival: Arrival
    origin: Origin
    kind: str
    unit: Located
    value: Any

    @property
    def reference(self) -> str:
        """The identity of the record of `unit`."""
        unit = self.unit
        return reference(self.origin.stream, unit.side, unit.source, unit.start, unit.record)


class Close(NamedTuple):
    """How a connection ended."""

    failed: bool
    """It closed otherwise than by the wish of the side that opened it."""
    unsecured: str | None
    """What was said with a client that is too old for security, though the listening side is not."""
    first: Stamp
    """The first FIN or RST: from then on the client may want another."""


class ZreSide(NamedTuple):
    """A side on which a ZRE node sends to another.

    `stream` is that of the sender, `uuid` that of the node, `server` where it connected to; `whole`: the side was
    captured from its start.
    """

    stream: Stream
    uuid: str | None
    server: Endpoint | None
    whole: bool
    start: Stamp
    """The first packet of the connection."""


class ZreCommand(NamedTuple):
    """A command of a node; `unit` is the offset of its message in `source`, `length` its octets. `lossy`: octets of the
    side were lost in front of it."""

    arrival: Arrival
    sender: ZreSide
    fields: dict[str, Any]
    source: int
    unit: int
    length: int
    lossy: bool


class ZreClose(NamedTuple):
    """The connection on which a node sent is over; `captured`: its end was captured."""

    arrival: Arrival
    sender: ZreSide
    captured: bool


class ZreBeacon(NamedTuple):
    """A beacon of a node, which decides itself; `stream` is that of its flow."""

    arrival: Arrival
    stream: Stream
    fields: dict[str, Any]


Fact = Attempt | ClockWentBack | GaveWay | Relayed | WithoutZmtp | Spoke | Said | ZreCommand | ZreClose | ZreBeacon


def reference(stream: Stream, side: int, source: int, start: int, record: str) -> str:
    """The identity of a record of a connection, as `refs` hold it."""
    return f"{stream.conn_id}/{side}/{source}/{start}/{record}"


def origin_of(connection: Connection, stream: Stream) -> Origin:
    """How a connection began; `stream` is that of side 0."""
    return Origin(stream, stamp(connection.start), connection.listener, connection.tcp[0].initial)


def end_facts(connection: Connection) -> list[Fact]:
    """What others may have to know of the end of a connection, and how the attempt to connect came out."""
    facts: list[Fact] = []
    identity = ConnectionIdentity(connection.key, stamp(connection.start), connection.incarnation, connection.number)
    if connection.close_how == "evicted":
        facts.append(GaveWay(connection.end, identity))
    outcome = connection.attempt_outcome()
    if outcome is not None:
        facts.append(Attempt(connection.end, identity, outcome, stamp(connection.last_syn), connection.syns))
    return facts
