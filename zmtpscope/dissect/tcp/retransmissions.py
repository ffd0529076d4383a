"""Detect octets that a side sends again and again without an acknowledgment, and unanswered keepalive probes.

A retransmission is not the next segment in order, so all segments of its connection take the slow path until the octets
are acknowledged.
"""

from __future__ import annotations

from zmtpscope.capture.segments import ACK, FIN, RST, SYN
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.tcp.closed_windows import SegmentHeader
from zmtpscope.dissect.tcp.connection import TcpSide
from zmtpscope.dissect.tcp.outages import ACKNOWLEDGED, Outage, Repeat, Unanswered
from zmtpscope.dissect.tcp.sequence import distance
from zmtpscope.dissect.tcp.stalls import RUNNING, UNSEEN, UNTIL_CLOSE, Intervals

SHORTEST = 1_000_000_000
"""Shortest outage to report; TCP recovers from a lost packet in less time."""

MIN_RUNNING = 2
"""Retransmissions that make an outage of less than a second, if it lasts when the capture ends."""

MIN_LOSSES = 4
"""Lost segments of a side that are worth a report; some packets are lost on most networks."""

MAX_REPEATED = 3
"""If one octet in this many is captured twice, the capture contains copies of packets."""

MIN_REORDERED = 10_000_000
"""A segment that arrives this much later (ns) than later ones was sent again; reordered segments arrive sooner."""

AGAIN = 190_000_000
"""Minimum time (ns) until TCP sends octets again a second time; copies of a packet follow sooner."""

PROBE = 1
"""Octets of a keepalive probe."""


def take(side: TcpSide, peer: TcpSide, header: SegmentHeader, at: Arrival) -> None:
    """Compare a segment of `side` with the unanswered octets of `peer`, and detect whether it is a retransmission
    itself.

    `at` is the segment. Call it before any other use of the segment.
    """
    if header.flags & (SYN | RST) or not header.flags & ACK:
        return
    if peer.unanswered is not None:
        _take_answer(peer, peer.unanswered, header, at)
    if side.next < 0 or peer.acknowledged < 0 or side.closed_window is not None:
        return
    ahead, acknowledged = distance(header.sequence, side.next), distance(peer.acknowledged, side.next)
    if header.length and ahead < 0 and ahead <= acknowledged < ahead + header.length:
        again = _unanswered(side, peer, at)
        again.retransmissions += 1
        again.smallest = min(again.smallest or header.length, header.length)
        again.largest = max(again.largest, header.length)
    elif ahead == -1 and not acknowledged and header.length <= PROBE and not header.flags & FIN and not side.ended:
        _unanswered(side, peer, at).probes += 1
    elif header.length > PROBE and ahead + header.length <= acknowledged and not header.flags & FIN:
        _repeat(side, header, at)


def _repeat(side: TcpSide, header: SegmentHeader, at: Arrival) -> None:
    """Note octets that are sent again after their acknowledgment, which was lost between capture point and sender.

    A single repetition may have crossed the acknowledgment. New data shows that the sender received the acknowledgment.
    """
    known, again = side.repeat, side.unanswered
    if known is None or (known.sequence, known.next) != (header.sequence, side.next):
        side.repeat = Repeat(at, header.sequence, side.next, header.length)
        return
    if again is None and at.time - known.at.time >= AGAIN:
        again = side.unanswered = Unanswered(known.at, max(0, side.delivered), side.next)
        again.acknowledged_before, again.retransmissions = True, 1
        again.smallest = again.largest = known.length
    if again is not None and again.acknowledged_before:
        again.retransmissions += 1
        again.smallest = min(again.smallest, header.length)
        again.largest = max(again.largest, header.length)


def end_with_connection(side: TcpSide, close_how: str, end: Arrival) -> None:
    """End the outage of `side` with its connection, which ended at `end`.

    `close_how` is "fin", "rst", "open" or another reason of `Connection.close`.
    """
    if side.unanswered is not None:
        _end(side, side.unanswered, UNTIL_CLOSE.get(close_how, UNSEEN), end.time, end.ordinal)


def running_outage(side: TcpSide, now: int, ordinal: int) -> Outage | None:
    """Return the outage that still lasts at `now` (ns), as if the capture ended there; None if there is none.

    `ordinal` is that of the last segment.
    """
    if side.unanswered is None:
        return None
    outage = _outage(side.unanswered, RUNNING, now, ordinal)
    return outage if _is_long(outage) else None


def _is_long(outage: Outage) -> bool:
    is_running = outage.until == RUNNING and not outage.acknowledged_before and outage.duration >= AGAIN
    return outage.duration >= SHORTEST or (is_running and outage.retransmissions >= MIN_RUNNING)


def _unanswered(side: TcpSide, peer: TcpSide, at: Arrival) -> Unanswered:
    if side.unanswered is None:
        position = max(0, side.delivered + distance(peer.acknowledged, side.next))
        side.unanswered = Unanswered(at, position, peer.acknowledged)
    return side.unanswered


def _take_answer(sender: TcpSide, again: Unanswered, header: SegmentHeader, at: Arrival) -> None:
    """Process a segment of the other side, which may acknowledge the octets that `sender` has sent again.

    `again` are these octets, `at` is the segment.
    """
    if distance(header.acknowledgment, again.edge) > 0 or not again.retransmissions:
        _end(sender, again, ACKNOWLEDGED, at.time, at.ordinal)
    else:
        again.answers += 1


def _end(side: TcpSide, again: Unanswered, until: str, end: int, decided: int) -> None:
    side.unanswered = None
    outage = _outage(again, until, end, decided)
    if _is_long(outage):
        if side.outages is None:
            side.outages = Intervals()
        side.outages.add(outage)
    elif outage.retransmissions and until == ACKNOWLEDGED:
        lose(side, outage)


def lose(side: TcpSide, outage: Outage) -> None:
    """Count a lost segment that was soon sent again, given as a short outage, among the losses of the side."""
    side.losses = outage if side.losses is None else side.losses.joined(outage)


def losses(side: TcpSide) -> Outage | None:
    """Return the lost segments of a side as one outage; None if there are few.

    Also None if many octets were captured twice: a packet captured on two interfaces looks the same.
    """
    found = side.losses
    is_copied = MAX_REPEATED * side.repeated >= side.captured
    return None if found is None or found.intervals < MIN_LOSSES or is_copied else found


def fill(side: TcpSide, length: int, at: Arrival) -> None:
    """Count a lost segment if a hole of `length` octets lasted for long until the segment `at` filled it."""
    waiting = side.out_of_order.waiting if side.out_of_order is not None else ()
    took = at.time - waiting[0].pieces[0].time if waiting else 0
    if MIN_REORDERED <= took < SHORTEST:
        lose(side, Outage(at, side.delivered, took, ACKNOWLEDGED, at.time, 1, 0, length, length, 0, at.ordinal, took))


def _outage(again: Unanswered, until: str, end: int, decided: int) -> Outage:
    duration = end - again.begin.time
    counts = again.retransmissions, again.probes, again.smallest, again.largest, again.answers
    times = again.begin, again.position, duration, until, end
    return Outage(
        *times, *counts, decided, duration, unreachable=again.unreachable, acknowledged_before=again.acknowledged_before
    )
