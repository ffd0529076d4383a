"""The open connections and the peers at both ends, as far as records and messages identify them."""

from __future__ import annotations

from typing import Any

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.tables import Sender
from zmtpscope.export.top.peers import ConnectionEnds


class OpenConnections:
    """Open connections by number."""

    def __init__(self) -> None:
        self._ends: dict[int, ConnectionEnds] = {}

    def of_stream(self, stream: Stream) -> ConnectionEnds:
        """Return the ends of the connection of a stream."""
        assert stream.conn is not None
        ends = self._ends.get(stream.conn)
        if ends is None:
            ends = self._ends[stream.conn] = ConnectionEnds(stream)
        return ends

    def of_record(self, values: dict[str, Any]) -> ConnectionEnds:
        """Return the ends of the connection of a record."""
        return self.of_stream(Stream(*(values[name] for name in Stream._fields)))

    def of_sender(self, sender: Sender) -> ConnectionEnds:
        """Return the ends of the connection of a sender, and learn their socket types from it."""
        ends, side = self.of_stream(sender.stream), sender.stream.side or 0
        ends.learn(side, sender.socket_type, None)
        ends.learn(1 - side, sender.peer_socket_type, None)
        return ends

    def end(self, conn: int) -> ConnectionEnds | None:
        """Remove a closed connection and return its ends, or None if they are unknown."""
        return self._ends.pop(conn, None)
