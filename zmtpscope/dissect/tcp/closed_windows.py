"""Detect closed receive windows, which prevent the other side from sending (RFC 9293, 3.8.6).

After a segment that announces a closed window (`CLOSED_WINDOW`), all segments of its connection take the slow path
until the window is open again. A window is closed when its side announces it. It is open when its side announces it, or
when more octets arrive than fit a closed window; in the second case the stall ends with the last announcement.
"""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.capture.segments import ACK, CLOSED_WINDOW, FIN, RST, SYN
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.tcp.connection import TcpSide
from zmtpscope.dissect.tcp.sequence import distance
from zmtpscope.dissect.tcp.stalls import (
    DISCONNECTED,
    OPENED,
    RUNNING,
    UNSEEN,
    UNTIL_CLOSE,
    ClosedWindow,
    Intervals,
    Stall,
)

SHORTEST = 10_000_000
"""Shortest stall to report. A receiver that keeps up closes its window while its thread waits to run: a few
milliseconds on a busy machine, without effect."""

PROBE = 1
"""Octets of a window probe, sent although the window is closed (RFC 9293, 3.8.6.1)."""


class SegmentHeader(NamedTuple):
    """Header fields of a segment; `length` counts its payload, captured or not."""

    sequence: int
    acknowledgment: int
    flags: int
    length: int


def take(side: TcpSide, peer: TcpSide, header: SegmentHeader, at: Arrival) -> None:
    """Update both receive windows by a segment of `side`: its own by the header, the window of `peer` by the payload.

    `at` is the segment. Call it before any other use of the segment.
    """
    if header.flags & (SYN | RST):
        return
    if side.closed_window is not None:
        _look_at_sender(side, side.closed_window, header, at)
    if not header.flags & ACK or not _is_news(side, header):
        return
    window = peer.closed_window
    if not header.flags & CLOSED_WINDOW:
        if window is not None:
            _end(peer, window, OPENED, at.time, at.ordinal)
    elif window is not None:
        window.announce_again(header.acknowledgment, at.time)
    elif peer.fin is None:  # otherwise it has no more to send
        ahead = 0 if peer.next < 0 else distance(header.acknowledgment, peer.next)
        reached = header.acknowledgment if ahead >= 0 else peer.next
        peer.closed_window = ClosedWindow(at, max(0, peer.delivered + ahead), header.acknowledgment, reached)


def end_with_connection(side: TcpSide, close_how: str, end: Arrival) -> None:
    """End the stall of `side` with its connection.

    `close_how` is "fin", "rst", "open" or another reason of `Connection.close`. If the end was not captured, the stall
    ends with the last announcement of the closed window.
    """
    window = side.closed_window
    if window is not None:
        until = UNTIL_CLOSE.get(close_how, UNSEEN)
        _end(side, window, until, window.last_announced if until == UNSEEN else end.time, end.ordinal)


def running_stall(side: TcpSide, now: int, ordinal: int) -> Stall | None:
    """Return the stall that still lasts at `now` (ns), as if the capture ended there; None if there is none.

    The window counts as closed until its side announces the opposite. `ordinal` is that of the last segment.
    """
    window = side.closed_window
    return None if window is None else _stall(window, RUNNING, now, ordinal)


def _look_at_sender(side: TcpSide, window: ClosedWindow, header: SegmentHeader, at: Arrival) -> None:
    """Process a segment that `side` sends into the closed `window` of its peer.

    A short segment is counted as a probe. A longer one ends the stall: the window was opened by an announcement that
    was not captured.
    """
    if distance(header.sequence + header.length, window.reached) > PROBE:
        _end(side, window, UNSEEN, window.last_announced, at.ordinal)
    elif header.flags & FIN:  # no data is left to send
        _end(side, window, DISCONNECTED, at.time, at.ordinal)
    elif header.length or distance(header.sequence, window.edge) < 0:
        window.probes += 1


def _is_news(side: TcpSide, header: SegmentHeader) -> bool:
    """Whether a segment announces the current window, and not an old one, as late or repeated segments do.

    See SND.WL1 and SND.WL2 of RFC 9293, 3.10.7.4.
    """
    ahead = 1 if side.acknowledged < 0 else distance(header.acknowledgment, side.acknowledged)
    return ahead > 0 or (ahead == 0 and (side.next < 0 or distance(header.sequence, side.next) >= 0))


def _end(side: TcpSide, window: ClosedWindow, until: str, end: int, decided: int) -> None:
    """Add the stall that ends at the time `end` to those of `side`.

    `until` is why it ends, `decided` the segment that shows it.
    """
    side.closed_window = None
    stall = _stall(window, until, end, decided)
    if stall is None:
        return
    if side.stalls is None:
        side.stalls = Intervals()
    side.stalls.add(stall)


def _stall(window: ClosedWindow, until: str, end: int, decided: int) -> Stall | None:
    """Return the stall for a closed window; None if it was too short to report.

    It ends at the time `end` for the reason `until`, as the segment `decided` shows.
    """
    duration = end - window.begin.time
    if duration < SHORTEST:
        return None
    return Stall(window.begin, window.position, duration, until, end, window.probes, decided, duration)
