"""The peers of connections, for counting. A peer that reconnects keeps its name."""

from __future__ import annotations

from typing import Any, NamedTuple

from zmtpscope.dissect.identity import Stream, listening_side
from zmtpscope.dissect.records.tables import Sender
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.side_names import LONGEST_TYPE, named
from zmtpscope.words import host_port


class Peer(NamedTuple):
    """A socket, identified by its identity or else by its address.

    `port` is None unless it listens: a client uses another port for each connection.
    """

    identity: str | None
    address: str | None
    port: int | None
    socket_type: str | None

    def __str__(self) -> str:
        """Format the peer as `127.0.0.1:5556 PUB` or `"worker-1" DEALER`."""
        if self.identity:
            name = named(self.identity)
        else:
            name = str(self.address) if self.port is None else host_port(self.address, self.port)
        return name if self.socket_type is None else f"{name} {safe_text(self.socket_type)[:LONGEST_TYPE]}"


class ConnectionEnds:
    """Both ends of a connection, with the details that records have shown so far."""

    def __init__(self, stream: Stream) -> None:
        """Start without socket types and identities; `stream` is either direction of the connection."""
        self.number = stream.conn
        self.conn_id = stream.conn_id
        self.addresses = stream.ends
        self.socket_types: list[str | None] = [None, None]
        self.identities: list[str | None] = [None, None]
        self.was_counted = False
        self._peers: tuple[Peer, Peer] | None = None

    def learn(self, side: int, socket_type: str | None, identity: str | None) -> None:
        self.socket_types[side] = socket_type or self.socket_types[side]
        self.identities[side] = identity or self.identities[side]

    @property
    def peers(self) -> tuple[Peer, Peer]:
        """Both ends as peers. They never change after the first use."""
        if self._peers is None:
            one, other = (self._peer(side) for side in (0, 1))
            self._peers = one, other
        return self._peers

    @property
    def listener(self) -> int:
        """The side that listens, 0 or 1, by which a service is identified."""
        (_, one), (_, other) = self.addresses
        return listening_side((one, other))

    def _peer(self, side: int) -> Peer:
        socket_type, identity = self.socket_types[side], self.identities[side]
        if identity:
            return Peer(identity, None, None, socket_type)
        address, port = self.addresses[side]
        return Peer(None, address, port if side == self.listener else None, socket_type)

    def __str__(self) -> str:
        """Format the ends as `3 10.0.0.2:40122 SUB > 10.0.0.1:5556 PUB`."""
        ends = []
        for (address, port), peer in zip(self.addresses, self.peers, strict=True):
            words = [host_port(address, port)]
            words += [safe_text(peer.socket_type)[:LONGEST_TYPE]] if peer.socket_type else []
            words += [named(peer.identity)] if peer.identity else []
            ends.append(" ".join(words))
        return f"{self.number} {ends[0]} > {ends[1]}"


class Topic(NamedTuple):
    """Key of the messages that one sender sent with one topic. `name` None: messages without a topic."""

    sender: Peer
    name: bytes | None


class OpenConnections:
    def __init__(self) -> None:
        self._ends: dict[int, ConnectionEnds] = {}

    def of_stream(self, stream: Stream) -> ConnectionEnds:
        assert stream.conn is not None
        ends = self._ends.get(stream.conn)
        if ends is None:
            ends = self._ends[stream.conn] = ConnectionEnds(stream)
        return ends

    def of_record(self, values: dict[str, Any]) -> ConnectionEnds:
        return self.of_stream(Stream(*(values[name] for name in Stream._fields)))

    def of_sender(self, sender: Sender) -> ConnectionEnds:
        """Return the ends of the sender's connection, and store the socket types that the sender has.

        After the first message of a connection, the names of its ends do not change.
        """
        ends, side = self.of_stream(sender.stream), sender.stream.side or 0
        ends.learn(side, sender.socket_type, None)
        ends.learn(1 - side, sender.peer_socket_type, None)
        _ = ends.peers
        return ends

    def end(self, conn: int) -> ConnectionEnds | None:
        """Remove a closed connection and return its ends; None if it is unknown."""
        return self._ends.pop(conn, None)
