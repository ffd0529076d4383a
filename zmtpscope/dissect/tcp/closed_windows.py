"""Looks when a side closes its receive window, so that the other one cannot send (RFC 9293, 3.8.6).

Segments that say that the window of their sender is closed (`CLOSED_WINDOW`) take the slow path, and so does all that
comes on the connection until it is open again: without closed windows nothing here is ever called.

What is told is what the segments prove. The window was closed when its side said so, and open when that side said so,
or when octets came that do not fit a closed one; then the stretch ends with the last segment that said closed.
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
    Stall,
    Stretches,
)

SHORTEST = 10_000_000
"""Shorter stretches (ns) are not told: a receiver that keeps up closes its window for as long as its thread waits to
run, which is a few milliseconds on a busy machine, and nobody notices."""

PROBE = 1
"""Octets that a window probe may have although the window is closed (RFC 9293, 3.8.6.1)."""


class Heard(NamedTuple):
    """What the header of a segment says; `length` is that of its payload, captured or not."""

    sequence: int
    acknowledgment: int
    flags: int
    length: int


def take(side: TcpSide, peer: TcpSide, heard: Heard, at: Arrival) -> None:
    """What a segment of `side` says of windows: of its own, and, by what it carries, of that of `peer`. It comes before
    anything else is made of the segment, `at`."""
    if heard.flags & (SYN | RST):
        return
    if side.closed_window is not None:
        _look_at_sender(side, side.closed_window, heard, at)
    if not heard.flags & ACK or not _is_news(side, heard):
        return
    window = peer.closed_window
    if not heard.flags & CLOSED_WINDOW:
        if window is not None:
            _end(peer, window, OPENED, at.time, at.ordinal)
    elif window is not None:
        window.say_again(heard.acknowledgment, at.time)
    elif peer.fin is None:  # else it has no more to send
        ahead = 0 if peer.next < 0 else distance(heard.acknowledgment, peer.next)
        reached = heard.acknowledgment if ahead >= 0 else peer.next
        peer.closed_window = ClosedWindow(at, max(0, peer.delivered + ahead), heard.acknowledgment, reached)


def end_with_connection(side: TcpSide, close_how: str, end: Arrival) -> None:
    """The connection is over, as `Connection.close` has it, and `end` is `Connection.last_moment`. How long the window
    was closed where the end is missing is not known."""
    window = side.closed_window
    if window is not None:
        until = UNTIL_CLOSE.get(close_how, UNSEEN)
        _end(side, window, until, window.last_said if until == UNSEEN else end.time, end.ordinal)


def running_stall(side: TcpSide, now: int, ordinal: int) -> Stall | None:
    """The stretch that goes on at the time `now`, as it would be told if the capture ended with the segment `ordinal`:
    a side that opens its window says so."""
    window = side.closed_window
    return None if window is None else _stall(window, RUNNING, now, ordinal)


def _look_at_sender(side: TcpSide, window: ClosedWindow, heard: Heard, at: Arrival) -> None:
    """What `side` sends, while it must not, is a probe; or it has heard, what nobody captured, that it may."""
    if distance(heard.sequence + heard.length, window.reached) > PROBE:
        _end(side, window, UNSEEN, window.last_said, at.ordinal)
    elif heard.flags & FIN:  # nothing is left to send
        _end(side, window, DISCONNECTED, at.time, at.ordinal)
    elif heard.length or distance(heard.sequence, window.edge) < 0:
        window.probes += 1


def _is_news(side: TcpSide, heard: Heard) -> bool:
    """Whether a segment of `side` says how its window is now: an older one that comes late, or again, says how it was
    (SND.WL1 and SND.WL2 of RFC 9293, 3.10.7.4)."""
    ahead = 1 if side.acknowledged < 0 else distance(heard.acknowledgment, side.acknowledged)
    return ahead > 0 or (ahead == 0 and (side.next < 0 or distance(heard.sequence, side.next) >= 0))


def _end(side: TcpSide, window: ClosedWindow, until: str, end: int, decided: int) -> None:
    """`side` could send again, or had no more to, at the time `end`."""
    side.closed_window = None
    stall = _stall(window, until, end, decided)
    if stall is None:
        return
    if side.stalls is None:
        side.stalls = Stretches()
    side.stalls.add(stall)


def _stall(window: ClosedWindow, until: str, end: int, decided: int) -> Stall | None:
    """None where it is too short to be told."""
    duration = end - window.begin.time
    if duration < SHORTEST:
        return None
    return Stall(window.begin, window.position, duration, until, end, window.probes, decided, duration)
