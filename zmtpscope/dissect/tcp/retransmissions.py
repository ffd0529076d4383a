"""Looks when a side sends the same octets again and again, and the other one does not acknowledge them; or does not
answer keepalive probes (RFC 9293, 3.8.1 and 3.8.4).

A retransmission is no next segment in order, so it takes the slow path; and so does all that comes on the connection
until the octets are acknowledged: without retransmissions nothing here is ever called.
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
"""Shorter outages (ns) are not told: TCP mends a lost packet in less."""

PROBE = 1
"""Octets that a keepalive probe may have."""


def take(side: TcpSide, peer: TcpSide, heard: Heard, at: Arrival) -> None:
    """What a segment of `side` answers of what `peer` has sent, and whether it sends something again. It comes before
    anything else is made of the segment, `at`."""
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
    """The connection is over, as `Connection.close` has it, and `end` is `Connection.last_moment`."""
    if side.unanswered is not None:
        _end(side, side.unanswered, UNTIL_CLOSE.get(close_how, UNSEEN), end.time, end.ordinal)


def running_outage(side: TcpSide, now: int, ordinal: int) -> Outage | None:
    """The outage that goes on at the time `now`, as it would be told if the capture ended with segment `ordinal`."""
    again = side.unanswered
    return None if again is None else _outage(again, RUNNING, now, ordinal)


def _unanswered(side: TcpSide, peer: TcpSide, at: Arrival) -> Unanswered:
    if side.unanswered is None:
        position = max(0, side.delivered + distance(peer.acknowledged, side.next))
        side.unanswered = Unanswered(at, position, peer.acknowledged)
    return side.unanswered


def _hear(sender: TcpSide, again: Unanswered, heard: Heard, at: Arrival) -> None:
    """The other side says something, which may acknowledge what `sender` has sent again."""
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
    """None where it is too short to be told."""
    duration = end - again.begin.time
    if duration < SHORTEST:
        return None
    counts = again.retransmissions, again.probes, again.smallest, again.largest, again.answers
    return Outage(again.begin, again.position, duration, until, end, *counts, decided, duration)
