"""What one connection reports to the others: the facts that `endpoints.py` evaluates."""

from __future__ import annotations

from typing import Any

from zmtpscope.dissect.arrivals import Arrival, stamp
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.facts import Close, Located, Origin, Said, origin_of
from zmtpscope.zmtp.regime import Form
from zmtpscope.zmtp.socket_types import LARGEST_IDENTITY


class Reports:
    """The facts of one connection. Nothing is reported that what is missing could belie."""

    origin: Origin | None = None
    """What other connections know this one by, once it has reported something."""

    def __init__(self, view: ConnectionView) -> None:
        self.view = view
        self._facts: list[Said] = []

    def drain(self) -> list[Said]:
        """What was reported and not given yet."""
        facts, self._facts = self._facts, []
        return facts

    def report(self, kind: str, timed: TimedEvent, value: Any = None) -> None:
        """What was said may matter to other connections; `kind` and `value` are those of `Said`."""
        if self.view.is_whole_until(timed.arrival.ordinal):
            self._put(kind, timed.arrival, timed, value)

    def _put(self, kind: str, arrival: Arrival, timed: TimedEvent, value: Any) -> None:
        if self.origin is None:
            self.origin = origin_of(self.view.tcp, self.view.streams[0].stream)
        event = timed.event
        unit = Located(timed.side, timed.source, event.start, event.stop, timed.record)
        self._facts.append(Said(arrival, self.origin, kind, unit, value))

    def served(self, timed: TimedEvent, other: TimedEvent) -> None:
        """Both sides have announced their types, the later one in `timed`: what a socket that knows its peers by
        identity, or has one only, got."""
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
        """The connection is over, or the capture."""
        greeting = greetings[0] or greetings[1]
        if greeting is None:
            return
        connection, failed, unsecured = self.view.tcp, False, None
        closed = arrival
        if connection.listener is not None:
            first = connection.closing if connection.has_ended else None
            if first is not None:
                closed, closed_by = first
                # not by the wish of the side that opened it
                failed = closed_by == connection.listener or not self.view.is_agreed()
            if self.view.version in ("1.0", "2.0"):
                unsecured = self._unsecured(greetings[connection.listener])
        if self.origin is not None or failed or unsecured is not None:
            self._put("closed", arrival, greeting, Close(failed, unsecured, stamp(closed)))

    def _unsecured(self, greeting: TimedEvent | None) -> str | None:
        """What was said with a client that is too old for security, though the listening side, which greeted so, is
        not."""
        if greeting is None:
            return None
        messages = sum(stream.messages.message_count for stream in self.view.streams)
        announced = str(greeting.event.fields.get("version_announced"))
        newer = greeting.event.regime.form is Form.PSEUDO_SIGNATURE or announced.startswith("3")
        return f"{messages} messages in {self.view.version}" if newer and messages else None
