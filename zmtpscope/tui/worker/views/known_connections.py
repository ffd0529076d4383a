"""The connections in the records of a view: names of their peers, and their traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from zmtpscope.dissect.identity import Stream, listening_side
from zmtpscope.export.side_names import name_and_type
from zmtpscope.export.top.peers import ConnectionEnds
from zmtpscope.store.counting import CountedMessages, Sender
from zmtpscope.words import counted, host_port

MAX_CONNECTIONS = 16_384
"""Maximum connections (some 1 kB each); further ones are only counted."""

TELLING = ("greeting", "command", "connection")
"""Records that identify the sides."""


class KnownConnection:
    """A connection: peers and counts of messages. `listener` is the side that accepted it."""

    def __init__(self, stream: Stream) -> None:
        self.ends = ConnectionEnds(stream)
        self.listener = self.ends.listener
        self.ready_ns: int | None = None
        """Time of the last greeting or READY."""
        self.ended_ns: int | None = None
        """Time of its end; None if it is open as far as known."""
        self.messages, self.octets = [0, 0], [0, 0]
        """Counts of messages and of the octets of their frames, by sending side."""
        self.version: str | None = None
        """Version of messages."""
        self._types_of_messages: list[str | None] = [None, None]
        """Socket types from messages, for sides that announced none."""
        self._names: list[str | None] = [None, None]
        """Cached names; None after a change."""

    @property
    def number(self) -> int:
        """Number of the connection (`conn`)."""
        assert self.ends.number is not None
        return self.ends.number

    def learn_of_record(self, values: Mapping[str, Any]) -> None:
        """Store the facts about the peers that a greeting, a command or the record of the connection contains."""
        self._names = [None, None]
        if values["record"] == "connection":
            for side in (0, 1):
                self.ends.learn(side, values[f"socket_type_{side}"], values[f"identity_{side}"])
            opened_by = values["opened_by"]
            ports = values["port_0"], values["port_1"]
            self.listener = listening_side(ports, None if opened_by is None else 1 - opened_by)
            if values["close"] != "open":
                self.ended_ns = values["end_ns"] if values["closed_ns"] is None else values["closed_ns"]
        elif values["side"] is not None:
            self.ends.learn(values["side"], values["socket_type"], values["identity"])
            if values["record"] == "greeting" or values["name"] == "READY":
                self.ready_ns = max(values["ts_ns"], self.ready_ns or 0)

    def learn_of_messages(self, sender: Sender) -> None:
        """Store the version, and the socket types of sender and receiver, from the sender of messages."""
        side = sender.stream.side or 0
        self.version = self.version or sender.version
        for each, socket_type in ((side, sender.socket_type), (1 - side, sender.peer_socket_type)):
            if socket_type is not None and self._types_of_messages[each] is None:
                self._types_of_messages[each], self._names[each] = socket_type, None

    def socket_type(self, side: int) -> str | None:
        return self.ends.socket_types[side] or self._types_of_messages[side]

    def address(self, side: int) -> str:
        """Return the address of a side, with the port only if it listens, because the port of a client changes each
        time."""
        address, port = self.ends.addresses[side]
        return host_port(address, port) if side == self.listener else str(address)

    def name(self, side: int) -> str:
        """Return the name of a side without control characters: `"worker-1" DEALER 10.0.0.2`, `PUB 10.0.0.1:5556`."""
        name = self._names[side]
        if name is None:
            name = self._names[side] = self._name(side)
        return name

    def _name(self, side: int) -> str:
        return " ".join([*name_and_type(self.socket_type(side), self.ends.identities[side]), self.address(side)])


class KnownConnections:
    """All connections in the records of a view, by number, at most `most`."""

    def __init__(self, most: int = MAX_CONNECTIONS) -> None:
        self.most = most
        self._known: dict[int, KnownConnection] = {}
        self._left_out: set[int] = set()

    def __iter__(self) -> Iterator[KnownConnection]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def get(self, conn: int) -> KnownConnection | None:
        return self._known.get(conn)

    def of_record(self, values: Mapping[str, Any]) -> KnownConnection | None:
        """Store the facts in a record, and return its connection; None for datagrams, and beyond the maximum."""
        known = self._of(values["conn"], lambda: Stream(*(values[name] for name in Stream._fields)))
        if known is not None and values["record"] in TELLING:
            known.learn_of_record(values)
        return known

    def of_sender(self, sender: Sender) -> KnownConnection | None:
        """Store the facts about a sender of messages, and return its connection; None beyond the maximum."""
        known = self._of(sender.stream.conn, lambda: sender.stream)
        if known is not None:
            known.learn_of_messages(sender)
        return known

    def count(self, messages: CountedMessages) -> Iterator[tuple[KnownConnection, int, int]]:
        """Count messages by connection. Yield the connection of each sender, and the times (ns) of its first and last
        message."""
        count = len(messages.senders)
        counts = np.bincount(messages.sender_of, minlength=count)
        by_sender = np.argsort(messages.sender_of, kind="stable")
        begins = np.cumsum(counts) - counts
        times, octets = messages.time_ends[by_sender], np.add.reduceat(messages.body_octets[by_sender], begins)
        first, last = np.minimum.reduceat(times, begins), np.maximum.reduceat(times, begins)
        columns = (column.tolist() for column in (counts, octets, first, last))
        for sender, number, size, first_ns, last_ns in zip(messages.senders, *columns, strict=True):
            known, side = self.of_sender(sender), sender.stream.side or 0
            if known is not None:
                known.messages[side] += number
                known.octets[side] += size
                yield known, first_ns, last_ns

    def _of(self, conn: int | None, stream: Callable[[], Stream]) -> KnownConnection | None:
        known = self._known.get(conn) if conn is not None else None
        if known is None and conn is not None:
            if len(self._known) < self.most:
                found = stream()  # without a side, the addresses are in order
                known = self._known[conn] = KnownConnection(found._replace(side=found.side or 0))
            else:
                self._left_out.add(conn)
        return known

    def left_out(self) -> list[str]:
        """Return a sentence about connections beyond the maximum, in a list; empty if there are none."""
        if not self._left_out:
            return []
        return [f"{counted(len(self._left_out), 'connection')} more than the {self.most} that are told apart"]
