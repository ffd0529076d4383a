"""The connections that have not ended: who their sides are, as far as records and messages have told."""

from __future__ import annotations

from typing import Any

from zmtpscope.dissect import MessageRun
from zmtpscope.dissect.identity import Stream
from zmtpscope.export.top.peers import ConnectionEnds


class OpenConnections:
    """By their numbers."""

    def __init__(self) -> None:
        self._ends: dict[int, ConnectionEnds] = {}

    def of_stream(self, stream: Stream) -> ConnectionEnds:
        """The ends of the connection of either side."""
        assert stream.conn is not None
        ends = self._ends.get(stream.conn)
        if ends is None:
            ends = self._ends[stream.conn] = ConnectionEnds(stream)
        return ends

    def of_record(self, values: dict[str, Any]) -> ConnectionEnds:
        """Those of the connection of a record."""
        return self.of_stream(Stream(*(values[name] for name in Stream._fields)))

    def of_run(self, run: MessageRun) -> ConnectionEnds:
        """Those of the connection of some messages, which tell the types of its sockets."""
        ends, side = self.of_stream(run.stream), run.stream.side or 0
        ends.learn(side, run.socket_type, None)
        ends.learn(1 - side, run.peer_socket_type, None)
        return ends

    def end(self, conn: int) -> ConnectionEnds | None:
        """A connection has ended; its ends, if they were known. It is forgotten."""
        return self._ends.pop(conn, None)
