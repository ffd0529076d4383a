"""A read-only view of a connection, from which findings are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.dissect.records.facts import reference
from zmtpscope.dissect.stream.negotiation import Negotiation
from zmtpscope.dissect.stream.side_stream import SideStream
from zmtpscope.dissect.tcp.connection import Connection
from zmtpscope.dissect.tcp.sequence import distance
from zmtpscope.zmtp.upgrade import VERSION as VERSION_ZWS

if TYPE_CHECKING:
    from zmtpscope.dissect.stream.session import Session  # importing PyNaCl takes time


class ConnectionView:
    """A connection with everything that is known about it so far. Its decryption session is None without keys."""

    def __init__(
        self,
        tcp: Connection,
        streams: tuple[SideStream, SideStream],
        negotiation: Negotiation,
        session: Session | None,
    ) -> None:
        self.tcp = tcp
        self.streams = streams
        self.negotiation = negotiation
        self.session = session

    @property
    def version(self) -> str | None:
        return self.negotiation.version

    @property
    def is_websocket(self) -> bool:
        return self.version == VERSION_ZWS

    @property
    def listener(self) -> int | None:
        return self.tcp.listener

    @property
    def is_zmtp(self) -> bool:
        """Whether the connection has records: a side speaks ZMTP, started like ZMTP, or is forced to by a decode-as
        rule."""
        return self.negotiation.is_zmtp

    @property
    def zmtp_since(self) -> int | None:
        """The ordinal of the segment that proved ZMTP; None if it is not proven."""
        if self.negotiation.forced is not None:
            return self.tcp.start.ordinal
        one, other = self.streams
        if one.found_since is None and other.found_since is None:
            return self.negotiation.greeted_since
        known = (self.negotiation.greeted_since, one.found_since, other.found_since)
        return min(ordinal for ordinal in known if ordinal is not None)

    def is_doubtful(self, side: int | None) -> bool:
        """Whether ZMTP is only likely: the side sends 1.0 frames, which other protocols may resemble.

        It is certain if the other side's signature or the user confirms it.
        """
        decision = self.negotiation.decision
        if self.negotiation.forced is not None or (decision is not None and decision.confidence == "proven"):
            return False
        reader = self.streams[side or 0].reader
        return reader is not None and reader.regime.is_old

    def is_agreed(self) -> bool:
        return all(stream.handshake_done for stream in self.streams)

    def lacks_octets(self, side: int) -> bool:
        """Whether the capture may lack octets of a side.

        It may if the side has no packet, or if its peer acknowledged octets that are not captured.
        """
        tcp = self.tcp.tcp[side]
        if self.streams[side].end or tcp.ended:
            return False
        return not tcp.seen or self._is_behind(side)

    def _is_behind(self, side: int) -> bool:
        acknowledged = self.tcp.tcp[1 - side].acknowledged
        return acknowledged >= 0 and distance(acknowledged, self.tcp.tcp[side].next) > 0

    def is_whole(self) -> bool:
        """Whether all octets were captured, from the first of each side to the last acknowledged one."""
        for side, (tcp, stream) in enumerate(zip(self.tcp.tcp, self.streams, strict=True)):
            is_acknowledged = self.tcp.tcp[1 - side].acknowledged == tcp.next
            if not tcp.begun or stream.outputs.gaps or (not is_acknowledged and self._is_behind(side)):
                return False
        return True

    def is_whole_until(self, ordinal: int) -> bool:
        """Whether no octets were missing up to the segment `ordinal`, and boxes were either all decrypted or none."""
        return all(tcp.begun for tcp in self.tcp.tcp) and all(
            (stream.lost_since is None or stream.lost_since > ordinal)
            and (stream.closed_since is None or stream.closed_since > ordinal)
            for stream in self.streams
        )

    def is_read_whole(self) -> bool:
        """Whether all captured octets of both sides were read."""
        return all(
            stream.closed_since is None
            and not (stream.outputs.undissected > stream.passed or stream.outputs.unfinished)
            and stream.is_read_for_certain
            for stream in self.streams
        )

    def said_something_after(self, side: int, arrival: Arrival) -> bool:
        ordinals = self.streams[side].arrivals.ordinals
        return bool(ordinals) and ordinals[-1] > arrival.ordinal

    def is_acknowledged(self, side: int, stop: int | None) -> bool:
        """Whether TCP acknowledged the octets of `side` before stream offset `stop` (None: all of them)."""
        acknowledged, sent = self.tcp.tcp[1 - side].acknowledged, self.tcp.tcp[side]
        if acknowledged < 0:
            return False
        behind = 0 if stop is None else sent.delivered - stop
        return distance(acknowledged, sent.next) + sent.ended + behind >= 0  # the FIN takes a number, too

    def reference(self, timed: TimedEvent) -> str:
        return reference(self.streams[0].stream, timed.side, timed.source, timed.event.start, timed.record)
