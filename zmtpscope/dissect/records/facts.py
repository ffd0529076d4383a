"""Facts about one connection or flow, for comparison with others: plain values that can be pickled.

They are sorted by the ordinal of `arrival`, the segment that showed the fact. Other times are `Stamp`s, because
ordinals of different workers cannot be compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from zmtpscope.dissect.arrivals import Arrival, Stamp, stamp
from zmtpscope.dissect.identity import Stream, stream_of
from zmtpscope.dissect.tcp.connection import CONNECTED, Connection, reverse
from zmtpscope.dissect.tcp.sequence import MODULUS

Endpoint = tuple[str, int]


class ConnectionIdentity(NamedTuple):
    """A TCP connection: its flow key, and the fields that distinguish connections with the same key (`identity.py`)."""

    key: bytes
    start: Stamp
    """First packet of the connection."""
    incarnation: int
    number: int | None

    @property
    def stream(self) -> Stream:
        return stream_of(self.key, self.start.time, self.incarnation, self.number)


class Connected(NamedTuple):
    """A closed TCP connection that was established, and whose SYN was captured at `start`."""

    arrival: Arrival
    pair: bytes
    """As `Attempt.pair`."""
    start: Stamp


class Attempt(NamedTuple):
    """A closed TCP connection with a captured SYN that was not established, or a stray answer.

    `outcome` is a key of `attempts.FINDING_BY_OUTCOME`. `last` is the last of the client's `syns` SYNs, which have the
    sequence number `initial`.
    """

    arrival: Arrival
    connection: ConnectionIdentity
    outcome: str
    last: Stamp
    syns: int
    initial: int
    is_reset: bool

    @property
    def asked(self) -> bytes:
        """Key of an attempt: address and port of the client, and the sequence number of its SYN."""
        key = self.connection.key
        return key[: len(key) // 2 - 2] + key[-4:-2] + self.initial.to_bytes(4)

    @property
    def pair(self) -> bytes:
        return pair_of(self.connection.key)


def pair_of(key: bytes) -> bytes:
    """Return the addresses of client and server, and the server's port, as octets. `key` is a flow key."""
    return key[:-4] + key[-2:]


class GaveWay(NamedTuple):
    """An open connection that was evicted for a newer one. `arrival` is its last packet."""

    arrival: Arrival
    connection: ConnectionIdentity


class ClockWentBack(NamedTuple):
    """Packets that are older than the packet before them on their connection: `times` of them in one block.

    The largest step back is `ns`, at packet `most`; the last one is at `arrival`.
    """

    arrival: Arrival
    most: Stamp
    ns: int
    times: int


class Relayed(NamedTuple):
    """A closed connection on which a client asked a proxy for the endpoint `target`.

    `refusal` is the proxy's reason, or None if ZMTP followed. `client` is a side, 0 or 1.
    """

    arrival: Arrival
    connection: ConnectionIdentity
    client: int
    protocol: str
    target: str
    refusal: str | None


class WithoutZmtp(NamedTuple):
    """A closed connection of a TLS client, or of a WebSocket without ZWS. It matters if other clients speak ZMTP there.

    `client` is a side, `finding` the id of the finding, `status` the HTTP response, if any, and `closed_by` the side
    that closed first, if any.
    """

    arrival: Arrival
    connection: ConnectionIdentity
    client: int
    finding: str
    status: str
    closed_by: int | None


class Spoke(NamedTuple):
    """The first connection to an endpoint in this run that is known to be ZMTP."""

    arrival: Arrival
    endpoint: Endpoint


class Origin(NamedTuple):
    """How a connection began.

    `listener` is the side that accepted it; if None, `stream` is that of the first sender. `initial` is the sequence
    number of the client's SYN, or -1. A TCP connection captured in two places under two addresses (NAT) has the same
    number in both.
    """

    stream: Stream
    start: Stamp
    listener: int | None
    initial: int

    @property
    def endpoint(self) -> Endpoint:
        return self.stream.dst_ip, self.stream.dst_port

    @property
    def pair(self) -> tuple[str, Endpoint]:
        return self.stream.src_ip, self.endpoint


class Located(NamedTuple):
    """Where a greeting or command is: at the offsets `start..stop` of `source`; `record` is its record type."""

    side: int
    source: int
    start: int
    stop: int
    record: str


class ConnectionFact(NamedTuple):
    """A fact about a connection that may matter to others.

    `kind` is a key of `endpoints.EVALUATE`, and determines the type of `value`. `unit` is the greeting or command that
    shows the fact (for a closed connection, the first greeting).
    """

    arrival: Arrival
    origin: Origin
    kind: str
    unit: Located
    value: Any

    @property
    def reference(self) -> str:
        unit = self.unit
        return reference(self.origin.stream, unit.side, unit.source, unit.start, unit.record)


class Close(NamedTuple):
    failed: bool
    """Whether the connection ended without the intention of the side that opened it."""
    unsecured: str | None
    """Description of the messages exchanged with a client too old for security, if the listener's version supports it.
    """
    first: Stamp
    """The first FIN or RST, after which the client may open another connection."""


class ZreSide(NamedTuple):
    """The side of a connection on which one ZRE node sends to another.

    `uuid` is the id of the sending node, `server` the endpoint to which it connected. `whole`: the side was captured
    from its start.
    """

    stream: Stream
    uuid: str | None
    server: Endpoint | None
    whole: bool
    start: Stamp


class ZreCommand(NamedTuple):
    """A ZRE command: `length` octets at offset `unit` of `source`. `lossy`: octets were lost before it."""

    arrival: Arrival
    sender: ZreSide
    fields: dict[str, Any]
    source: int
    unit: int
    length: int
    lossy: bool


class ZreClose(NamedTuple):
    """The end of a connection on which a ZRE node sent. `captured`: a FIN or RST was captured."""

    arrival: Arrival
    sender: ZreSide
    captured: bool


class ZreBeacon(NamedTuple):
    """A beacon of a ZRE node. `arrival` is its own datagram, and `stream` is that of its flow."""

    arrival: Arrival
    stream: Stream
    fields: dict[str, Any]


Fact = (
    Attempt
    | Connected
    | ClockWentBack
    | GaveWay
    | Relayed
    | WithoutZmtp
    | Spoke
    | ConnectionFact
    | ZreCommand
    | ZreClose
    | ZreBeacon
)


def reference(stream: Stream, side: int, source: int, start: int, record: str) -> str:
    """Return the identity of a record of a connection, as the field `refs` of findings has it.

    `record` is its type; it starts at offset `start` of `source`.
    """
    return f"{stream.conn_id}/{side}/{source}/{start}/{record}"


def origin_of(connection: Connection, stream: Stream) -> Origin:
    """Return how a connection began; `stream` is that of side 0."""
    return Origin(stream, stamp(connection.start), connection.listener, connection.tcp[0].initial)


def end_facts(connection: Connection) -> list[Fact]:
    """Return facts about the end of a connection, and about the attempt to connect."""
    facts: list[Fact] = []
    start = stamp(connection.start)
    identity = ConnectionIdentity(connection.key, start, connection.incarnation, connection.number)
    if connection.close_how == "evicted":
        facts.append(GaveWay(connection.end, identity))
    outcome = connection.attempt_outcome()
    if outcome == CONNECTED:
        facts.append(Connected(connection.end, pair_of(connection.key), start))
    elif connection.began_before_capture:
        # which side is the client is unknown; no client tries to reach the other one's ephemeral port
        facts += [Connected(connection.end, pair_of(key), start) for key in (connection.key, reverse(connection.key))]
    elif outcome is not None:
        last = start if connection.last_syn is connection.start else stamp(connection.last_syn)
        client, server = connection.tcp
        initial = client.initial if client.initial >= 0 else (server.acknowledged - 1) % MODULUS
        is_reset = connection.is_answer_reset
        facts.append(Attempt(connection.end, identity, outcome, last, connection.syns, initial, is_reset))
    return facts
