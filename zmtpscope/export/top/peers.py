"""Who sends and who receives: the peers of a connection, named so that one that reconnects is the same peer."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.identity import Stream, listening_side
from zmtpscope.export.describe import endpoint
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.side_names import LONGEST_TYPE, named


class Peer(NamedTuple):
    """A socket as its connections show it: its identity, else its address; `port` is that of one that listens, since
    another port is used for every connection that is opened."""

    identity: str | None
    address: str | None
    port: int | None
    socket_type: str | None

    def __str__(self) -> str:
        """`127.0.0.1:5556 PUB`, `"worker-1" DEALER`: safe to show."""
        if self.identity:
            name = named(self.identity)
        else:
            name = str(self.address) if self.port is None else endpoint(self.address, self.port)
        return name if self.socket_type is None else f"{name} {safe_text(self.socket_type)[:LONGEST_TYPE]}"


class ConnectionEnds:
    """Both sides of one connection, as far as records have described them."""

    def __init__(self, stream: Stream) -> None:
        """`stream` is that of either side."""
        ends = [(stream.src_ip, stream.src_port), (stream.dst_ip, stream.dst_port)]
        self.number = stream.conn
        self.conn_id = stream.conn_id
        self.addresses = ends if stream.side == 0 else ends[::-1]
        self.socket_types: list[str | None] = [None, None]
        self.identities: list[str | None] = [None, None]
        self.was_counted = False
        """Whether messages of it were counted already."""
        self._peers: tuple[Peer, Peer] | None = None

    def learn(self, side: int, socket_type: str | None, identity: str | None) -> None:
        """Learn what a greeting or command says of its sender, or a message."""
        self.socket_types[side] = socket_type or self.socket_types[side]
        self.identities[side] = identity or self.identities[side]

    @property
    def peers(self) -> tuple[Peer, Peer]:
        """The peers of side 0 and 1, by what is known when this is first asked for."""
        if self._peers is None:
            one, other = (self._peer(side) for side in (0, 1))
            self._peers = one, other
        return self._peers

    @property
    def listener(self) -> int:
        """The side that listens: it tells which service this is a connection of."""
        (_, one), (_, other) = self.addresses
        return listening_side((one, other))

    def _peer(self, side: int) -> Peer:
        socket_type, identity = self.socket_types[side], self.identities[side]
        if identity:
            return Peer(identity, None, None, socket_type)
        address, port = self.addresses[side]
        return Peer(None, address, port if side == self.listener else None, socket_type)

    def __str__(self) -> str:
        """`3 10.0.0.2:40122 SUB > 10.0.0.1:5556 PUB`: safe to show."""
        ends = []
        for (address, port), peer in zip(self.addresses, self.peers, strict=True):
            words = [endpoint(address, port)]
            words += [safe_text(peer.socket_type)[:LONGEST_TYPE]] if peer.socket_type else []
            words += [named(peer.identity)] if peer.identity else []
            ends.append(" ".join(words))
        return f"{self.number} {ends[0]} > {ends[1]}"


class Topic(NamedTuple):
    """What a publisher sends under one name; `name` is None for messages without a topic, of any sender."""

    sender: Peer
    name: bytes | None
