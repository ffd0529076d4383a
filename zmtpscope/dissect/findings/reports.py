"""Report facts about one connection for comparison with other connections by `endpoints.py`."""

from __future__ import annotations

from typing import Any

from zmtpscope.dissect.arrivals import Arrival, stamp
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.facts import Close, ConnectionFact, Located, Origin, origin_of
from zmtpscope.zmtp.regime import Form
from zmtpscope.zmtp.socket_types import LARGEST_IDENTITY


class Reports:
    """Collects the facts about one connection for comparison with others.

    Only facts that missing octets cannot disprove are reported.
    """

    origin: Origin | None = None

    def __init__(self, view: ConnectionView) -> None:
        self.view = view
        self._facts: list[ConnectionFact] = []

    def drain(self) -> list[ConnectionFact]:
        facts, self._facts = self._facts, []
        return facts

    def report(self, kind: str, timed: TimedEvent, value: Any = None) -> None:
        """Report a greeting or command that may matter to other connections, as a `ConnectionFact` of this kind."""
        if self.view.is_whole_until(timed.arrival.ordinal):
            self._put(kind, timed.arrival, timed, value)

    def _put(self, kind: str, arrival: Arrival, timed: TimedEvent, value: Any) -> None:
        if self.origin is None:
            self.origin = origin_of(self.view.tcp, self.view.streams[0].stream)
        event = timed.event
        unit = Located(timed.side, timed.source, event.start, event.stop, timed.record)
        self._facts.append(ConnectionFact(arrival, self.origin, kind, unit, value))

    def served(self, timed: TimedEvent, other: TimedEvent) -> None:
        """Report that a ROUTER is connected to a peer with an identity, or a PAIR to its peer.

        Both socket types must be known; `timed` is the later of the two commands.
        """
        listener = self.view.listener
        if listener is None:
            return
        asked, answered = (timed, other) if timed.side == listener else (other, timed)
        socket_type = asked.event.fields["socket_type"]
        identity = answered.event.fields.get("identity") or ""
        if socket_type == "PAIR" or (socket_type == "ROUTER" and 0 < len(identity) <= LARGEST_IDENTITY):
            fact = answered._replace(
                arrival=Arrival(timed.arrival.ordinal, answered.arrival.packet, answered.arrival.time)
            )
            self.report("served", fact, (socket_type, identity if socket_type == "ROUTER" else ""))

    def end(self, arrival: Arrival, greetings: tuple[TimedEvent | None, TimedEvent | None]) -> None:
        """Report the end of the connection or of the capture, with the greetings of both sides."""
        greeting = greetings[0] or greetings[1]
        if greeting is None:
            return
        connection, failed, unsecured = self.view.tcp, False, None
        closed = arrival
        if connection.listener is not None:
            first = connection.closing if connection.has_ended else None
            if first is not None:
                closed, closed_by = first
                # not closed by choice of the connecting side
                failed = closed_by == connection.listener or not self.view.is_agreed()
            if self.view.version in ("1.0", "2.0"):
                unsecured = self._unsecured(greetings[connection.listener])
        if self.origin is not None or failed or unsecured is not None:
            self._put("closed", arrival, greeting, Close(failed, unsecured, stamp(closed)))

    def _unsecured(self, greeting: TimedEvent | None) -> str | None:
        """Describe messages exchanged without security because the client is too old for it; None if there were none.

        `greeting` is that of the listener, which is newer.
        """
        if greeting is None:
            return None
        messages = sum(stream.messages.message_count for stream in self.view.streams)
        announced = str(greeting.event.fields.get("version_announced"))
        newer = greeting.event.regime.form is Form.PSEUDO_SIGNATURE or announced.startswith("3")
        return f"{messages} messages in {self.view.version}" if newer and messages else None
