from __future__ import annotations

from typing import NamedTuple

from zmtpscope.capture.segments import NO_HOST, PROHIBITED
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.identity import Stream, ends_of, stream_of
from zmtpscope.dissect.tcp.out_of_order import Hole, OutOfOrder
from zmtpscope.dissect.tcp.outages import Outage, Repeat, Unanswered
from zmtpscope.dissect.tcp.sequence import MODULUS, distance
from zmtpscope.dissect.tcp.stalls import ClosedWindow, Intervals, Stall
from zmtpscope.records import SECOND

CONNECTED, REFUSED, UNANSWERED, HALF_OPEN = "connected", "refused", "not answered", "never completed"
REJECTED, NO_ROUTE = "rejected by ICMP", "unreachable by ICMP"
STRAY = "stray answer"
"""A SYN and ACK without a SYN, which the client reset: it asked another address."""
UNREACHED = {PROHIBITED: REJECTED, NO_HOST: NO_ROUTE}
UNDER_WAY = "under way"
"""Outcome that is not reported: the capture ended, or the connection was evicted, within a second of the SYN and
before an answer."""


NEVER = Arrival(-1, 0, 0)
"""A segment that has not arrived."""


class TcpState(NamedTuple):
    """The TCP state of a side between two segments, if all octets so far arrived in order.

    - `initial`: the sequence number of its SYN, -1 if not captured
    - `next`: the sequence number of the next octet, -1 before the first segment
    - `acknowledged`: the last number that the side acknowledged
    - `octets`: the stream offset of the next octet
    - `last`: its last segment
    - `fin`: its FIN, if sent
    """

    initial: int = -1
    next: int = -1
    acknowledged: int = -1
    octets: int = 0
    last: Arrival = NEVER
    fin: Arrival | None = None
    """The FIN, which uses a sequence number."""

    @classmethod
    def after(cls, initial: int, octets: int, acknowledged: int, last: Arrival, fin: Arrival | None = None) -> TcpState:
        """Return the state after a SYN with the number `initial` and `octets` octets; `last` is the last segment.

        The side has acknowledged the octets of its peer up to the sequence number `acknowledged`.
        """
        next_ = (initial + 1 + octets + (fin is not None)) % MODULUS
        return cls(initial, next_, acknowledged, octets, last, fin)


class TcpSide:
    """One direction of a TCP connection.

    `next` is the sequence number of the next octet. `plain` is the same number while its segments arrive in order,
    otherwise -1. `pieces` are indexes of the current block's segments.
    """

    __slots__ = (
        "acknowledged",
        "acknowledgment_changes",
        "begun",
        "captured",
        "closed_window",
        "conflicting",
        "delivered",
        "ended",
        "fin",
        "finish",
        "holes",
        "initial",
        "key",
        "late",
        "losses",
        "next",
        "number",
        "out_of_order",
        "outages",
        "pieces",
        "plain",
        "repeat",
        "repeated",
        "seen",
        "stalls",
        "unanswered",
    )

    def __init__(self, number: int, key: bytes) -> None:
        self.number = number
        self.key = key
        self.plain = -1
        self.next = -1
        self.begun = False
        """Whether the stream is known from its first octet: its SYN, or an acknowledgment of it, was captured."""
        self.initial = -1
        """Sequence number of the SYN, -1 if none was captured."""
        self.seen = False
        self.acknowledged = -1
        """Last acknowledgment number sent, -1 before the first."""
        self.pieces: list[int] = []
        self.holes: list[Hole] = []
        self.delivered = 0
        """Stream offset of `next`, holes included."""
        self.out_of_order: OutOfOrder | None = None
        """Segments out of order, from the first hole on."""
        self.closed_window: ClosedWindow | None = None
        """The other side's receive window while it is closed."""
        self.stalls: Intervals[Stall] | None = None
        self.unanswered: Unanswered | None = None
        """Retransmitted octets without an acknowledgment."""
        self.repeat: Repeat | None = None
        """The last acknowledged octets that were sent again."""
        self.acknowledgment_changes: tuple[tuple[Arrival, int, int], ...] = ()
        """Unreported changes: (deciding segment, packet, kind) as in `acknowledgment_times.Change`."""
        self.outages: Intervals[Outage] | None = None
        self.losses: Outage | None = None
        """Sum of the short outages: data was sent again and soon acknowledged."""
        self.fin: Arrival | None = None
        """First segment with a FIN."""
        self.finish: int | None = None
        """Stream offset of the FIN."""
        self.ended = False
        self.captured = self.repeated = self.conflicting = self.late = 0
        """Captured payload octets, and the ones that never reached the stream."""

    @property
    def waits(self) -> bool:
        """Whether segments are waiting for missing octets before them."""
        return self.out_of_order is not None and bool(self.out_of_order.waiting)

    def leave_plain(self) -> None:
        """Stop the fast loop, which reads segments in order, and store how far it has read."""
        if self.plain >= 0:
            gained = distance(self.plain, self.next)
            self.next, self.plain = self.plain, -1
            self.delivered += gained
            self.captured += gained

    def resume(self, state: TcpState) -> None:
        """Continue with the state of a side that the fast path has read."""
        if state.next < 0:
            return
        self.initial, self.next, self.plain, self.acknowledged = state.initial, state.next, -1, state.acknowledged
        self.captured += state.octets - self.delivered
        self.delivered = state.octets
        self.seen, self.begun = True, self.begun or self.initial >= 0
        if state.fin is not None:
            self.fin, self.finish, self.ended = state.fin, state.octets, True

    def resume_plain(self) -> None:
        """Start the fast loop, which reads segments in order, if the next sequence number is known."""
        if self.next >= 0 and self.acknowledged >= 0 and not self.ended:
            self.plain = self.next

    def has_spoken(self) -> bool:
        """Whether octets of this side were captured."""
        return bool(self.delivered or self.pieces) or self.plain not in (-1, self.next)


class LastSeen(NamedTuple):
    """When the last packet of a connection arrived (ns), and the sequence number of its SYN, negative if unknown."""

    time: int
    initial: int


class Connection:
    """A TCP connection of the run.

    `tcp` contains the two directions; side 0 opened the connection. `incarnation` distinguishes connections on the same
    ports that started no later (`incarnations.py`).
    """

    opened_by: int | None = None
    listener: int | None = None
    """The side that accepted the connection. None if the first captured packet is not a SYN, even if one follows."""
    closed = False
    close_how = "open"
    reset: Arrival | None = None
    """The first RST, if it ended the connection."""
    reset_by: int | None = None
    resets_with_ack: bool | None = None
    """Whether the RST has the ACK flag."""
    hops: tuple[int | None, int | None] = (None, None)
    """Remaining TTL (or hop limit) of the SYN of `reset_by`, and of the RST."""
    idle: int | None = None
    """Nanoseconds from the last packet to the end of the capture, if the connection did not end."""
    unreachable: int | None = None
    """Code of the ICMP message about the last undelivered packet (`capture/segments.py`)."""
    syns = 1
    """SYNs of side 0; not meaningful if the first captured packet is no SYN."""
    is_answer_lost = False
    """Whether side 0 sent its SYN again after an answer."""

    def __init__(self, number: int, key: bytes, start: Arrival, incarnation: int) -> None:
        self.number = number
        self.key = key
        self.incarnation = incarnation
        self.start = self.last = self.end = self.last_syn = start
        """`last` is the last packet before the current block."""
        self.tcp = TcpSide(0, key), TcpSide(1, reverse(key))

    @property
    def is_answer_reset(self) -> bool:
        """Whether the client reset the connection instead of acknowledging SYN and ACK."""
        client, server = self.tcp
        return self.reset_by == 0 and server.initial >= 0 > client.acknowledged

    @property
    def ports(self) -> tuple[int, int]:
        return int.from_bytes(self.key[-4:-2]), int.from_bytes(self.key[-2:])

    @property
    def addresses(self) -> tuple[tuple[str, int], tuple[str, int]]:
        return ends_of(self.key)

    @property
    def closing(self) -> tuple[Arrival, int] | None:
        """The first FIN or RST and its side, even if octets before it are missing; None if there is none."""
        sent = [(side.fin, side.number) for side in self.tcp if side.fin is not None]
        if self.reset is not None and self.reset_by is not None:
            sent.append((self.reset, self.reset_by))
        return min(sent, default=None)

    @property
    def closed_by(self) -> int | None:
        first = self.closing
        return None if first is None else first[1]

    def reset_time(self, side: int) -> int | None:
        return self.reset.time if self.reset is not None and self.reset_by == side else None

    @property
    def fin_acknowledged(self) -> bool | None:
        """Whether the FIN was acknowledged, if exactly one side sent a FIN; otherwise None."""
        closed = [side for side in self.tcp if side.fin is not None]
        if len(closed) != 1 or self.reset is not None:
            return None
        (side,), peer = closed, self.tcp[1 - closed[0].number]
        return side.ended and peer.acknowledged >= 0 and distance(peer.acknowledged, side.next) >= 0

    @property
    def only_side(self) -> int | None:
        """The only side with captured packets; None if both sides have some."""
        seen = [side.number for side in self.tcp if side.seen]
        return seen[0] if len(seen) == 1 and not self.is_to_itself else None

    @property
    def has_ended(self) -> bool:
        return self.close_how in ("fin", "rst")

    @property
    def has_octets(self) -> bool:
        return bool(self.tcp[0].delivered or self.tcp[1].delivered)

    @property
    def is_to_itself(self) -> bool:
        """Whether both ends are the same socket, so that all packets belong to one side."""
        return self.tcp[0].key == self.tcp[1].key

    @property
    def ceased(self) -> int:
        """The time (ns) after which no more packets can arrive: of the end of the connection, or of the end of the
        capture."""
        return self.end.time + (self.idle or 0)

    @property
    def last_moment(self) -> Arrival:
        """End of the connection, or of the capture if it is open."""
        return self.end._replace(time=self.ceased) if self.close_how == "open" else self.end

    def leave(self) -> tuple[TcpState, TcpState]:
        """Pass both sides, whose octets all arrived in order, to the fast path. Returns their states."""
        for side in self.tcp:
            side.leave_plain()
        one, other = (
            TcpState(side.initial, side.next, side.acknowledged, side.delivered, self.last, side.fin)
            for side in self.tcp
        )
        return one, other

    def resume(self, states: tuple[TcpState, TcpState]) -> None:
        """Continue with the states of both sides that the fast path has read."""
        for side, state in zip(self.tcp, states, strict=True):
            side.resume(state)
            self.last = max(self.last, state.last)
        self.resume_plain()

    def finish(self, states: tuple[TcpState, TcpState]) -> None:
        """Set the final state of both sides after all octets were read in order."""
        for side, state in zip(self.tcp, states, strict=True):
            side.resume(state)

    def resume_plain(self) -> None:
        """Start the fast loop, which reads segments in order, for both sides.

        Does nothing if a hole, a closed window or an acknowledgment is pending.
        """
        if not any(side.waits or side.closed_window or side.unanswered for side in self.tcp):
            for side in self.tcp:
                side.resume_plain()

    def close(self, how: str, arrival: Arrival, last: Arrival, reset_by: TcpSide | None) -> None:
        """Close the connection.

        `how` is "fin", "rst", "open" (the capture ends), "reused" (a SYN opened another connection on the same ports)
        or "evicted". After FINs of both sides it is "fin", regardless of later packets. `arrival` is the segment that
        shows the end, `last` the last packet of the connection. `end` becomes the packet that ended it, otherwise
        `last`, with the ordinal of `arrival`.
        """
        fins = [side.fin for side in self.tcp if side.fin is not None]
        end = last
        if len(fins) == len(self.tcp):
            how, end = "fin", max(fins)
        elif reset_by is not None:
            end, self.reset, self.reset_by = arrival, arrival, reset_by.number
        else:
            self.idle = max(0, arrival.time - last.time)
        self.closed, self.close_how = True, how
        self.end = end._replace(ordinal=arrival.ordinal)

    def ended(self, side: int) -> bool:
        """Whether a FIN or RST of the side was captured."""
        return self.closed and (self.tcp[side].fin is not None or self.close_how == "rst")

    def attempt_outcome(self) -> str | None:
        """Return the outcome of an attempt to connect; None if neither a SYN nor a stray answer was captured."""
        client, server = self.tcp
        if client.initial < 0:
            return STRAY if self.is_answer_reset and server.acknowledged >= 0 else None
        if client.acknowledged >= 0 or client.delivered or server.delivered:
            return CONNECTED
        if self.close_how == "rst" and server.initial < 0 and server.seen:
            return REFUSED  # by the listener, or by the client if TIME_WAIT answers (RFC 9293, 3.10.7.3)
        if self.close_how in ("open", "evicted") and self.ceased - self.start.time < SECOND:
            return UNDER_WAY
        return HALF_OPEN if server.seen else UNREACHED.get(self.unreachable or 0, UNANSWERED)

    @property
    def began_before_capture(self) -> bool:
        """Whether the connection was open when the capture began, as octets or FINs without a SYN show."""
        return all(side.initial < 0 for side in self.tcp) and (self.has_octets or self.close_how == "fin")

    def ends(self) -> tuple[Stream, Stream]:
        first = stream_of(self.key, self.start.time, self.incarnation, self.number)
        return first, first.turned()


def reverse(key: bytes) -> bytes:
    size = (len(key) - 4) // 2
    return key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]
