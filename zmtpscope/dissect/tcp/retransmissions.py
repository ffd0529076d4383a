"""Detect octets that a side sends again and again without an acknowledgment, and unanswered keepalive probes.

See RFC 9293, 3.8.1 and 3.8.4. A retransmission is not the next segment in order, so it takes the slow path, like
everything on its connection until the octets are acknowledged. Connections without retransmissions never call this
module.
"""

from __future__ import annotations

from zmtpscope.capture.segments import ACK, FIN, RST, SYN
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.tcp.closed_windows import Heard
from zmtpscope.dissect.tcp.connection import TcpSide
from zmtpscope.dissect.tcp.outages import ACKNOWLEDGED, Outage, Unanswered
from zmtpscope.dissect.tcp.sequence import distance
from zmtpscope.dissect.tcp.stalls import RUNNING, UNSEEN, UNTIL_CLOSE, Stretches

SHORTEST = 1_000_000_000
"""Minimum duration of a reported outage (ns); TCP recovers from a lost packet in less."""

PROBE = 1
"""Maximum number of octets of a keepalive probe."""


def take(side: TcpSide, peer: TcpSide, heard: Heard, at: Arrival) -> None:
    """Match a segment of `side` with unanswered octets of `peer`, and note whether it is a retransmission itself.

    Call it before the segment `at` is used for anything else.
    """
    if heard.flags & (SYN | RST) or not heard.flags & ACK:
        return
    if peer.unanswered is not None:
        _hear(peer, peer.unanswered, heard, at)
    if side.next < 0 or peer.acknowledged < 0 or side.closed_window is not None:
        return
    ahead, acknowledged = distance(heard.sequence, side.next), distance(peer.acknowledged, side.next)
    if heard.length and ahead < 0 and ahead <= acknowledged < ahead + heard.length:
        again = _unanswered(side, peer, at)
        again.retransmissions += 1
        again.smallest = min(again.smallest or heard.length, heard.length)
        again.largest = max(again.largest, heard.length)
    elif ahead == -1 and not acknowledged and heard.length <= PROBE and not heard.flags & FIN and not side.ended:
        _unanswered(side, peer, at).probes += 1


def end_with_connection(side: TcpSide, close_how: str, end: Arrival) -> None:
    """End the outage of `side` when its connection ends; see `Connection.close` and `Connection.last_moment`."""
    if side.unanswered is not None:
        _end(side, side.unanswered, UNTIL_CLOSE.get(close_how, UNSEEN), end.time, end.ordinal)


def running_outage(side: TcpSide, now: int, ordinal: int) -> Outage | None:
    """Return the outage still running at the time `now`, as if the capture ended with the segment `ordinal`."""
    again = side.unanswered
    return None if again is None else _outage(again, RUNNING, now, ordinal)


def _unanswered(side: TcpSide, peer: TcpSide, at: Arrival) -> Unanswered:
    if side.unanswered is None:
        position = max(0, side.delivered + distance(peer.acknowledged, side.next))
        side.unanswered = Unanswered(at, position, peer.acknowledged)
    return side.unanswered


def _hear(sender: TcpSide, again: Unanswered, heard: Heard, at: Arrival) -> None:
    """Match a segment of the other side, which may acknowledge the octets that `sender` has sent again."""
    if distance(heard.acknowledgment, again.edge) > 0 or not again.retransmissions:
        _end(sender, again, ACKNOWLEDGED, at.time, at.ordinal)
    else:
        again.answers += 1


def _end(side: TcpSide, again: Unanswered, until: str, end: int, decided: int) -> None:
    side.unanswered = None
    outage = _outage(again, until, end, decided)
    if outage is not None:
        if side.outages is None:
            side.outages = Stretches()
        side.outages.add(outage)


def _outage(again: Unanswered, until: str, end: int, decided: int) -> Outage | None:
    """Return the outage, or None if it is too short to report."""
    duration = end - again.begin.time
    if duration < SHORTEST:
        return None
    counts = again.retransmissions, again.probes, again.smallest, again.largest, again.answers
    return Outage(again.begin, again.position, duration, until, end, *counts, decided, duration)
