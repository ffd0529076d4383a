"""The sides that the fast path can read, and their constant state. `side_states.py` has the state that changes."""

from __future__ import annotations

import functools
from typing import NamedTuple

from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.connection.message_rows import FOLLOWED, MessageRows
from zmtpscope.dissect.findings.row_rules import ROW_RULES
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.payload_rows import PayloadRows
from zmtpscope.dissect.records.topics import DISTRIBUTING, Names
from zmtpscope.dissect.stream.reading import Reading
from zmtpscope.zmtp.regime import Regime
from zmtpscope.zmtp.socket_types import PEERS, PUBLISHERS, SUBSCRIBERS

MAX_OPEN, MAX_HELD = 64, 16 << 10
"""Maximum frames and octets of an incomplete message of a side on the fast path."""

ASKS, REPLIES = 1, 2
NO_ROLES = 0, 0
ROLES: dict[tuple[str | None, str | None], tuple[int, int]] = {
    ("REQ", "REP"): (ASKS, REPLIES),
    ("REQ", "ROUTER"): (ASKS, REPLIES),
    ("REP", "REQ"): (REPLIES, ASKS),
    ("ROUTER", "REQ"): (REPLIES, ASKS),
}
"""Whether each side sends requests or replies, by the socket types of both."""

LARGEST_PLACE = 1 << 48
"""Maximum stream offset. Offsets have 64 bits, and the end of an announced body may exceed that."""


class PlainSide(NamedTuple):
    """The constant state of a side that sends plain messages.

    Values that all its messages need are copied from the connection, where a lookup passes five objects. `settled` is
    the ordinal of the segment that settled the version; `is_written`: an output needs its messages.
    """

    reading: Reading | None
    """The slow path's reading of the side, which continues after the release; None if only the fast path has read
    it."""
    stream: Stream
    regime: Regime
    confidence: str
    version: str | None
    peer_socket_type: str | None
    settled: int
    limit: int
    """Maximum octets of a message that is written whole."""
    payloads: PayloadRows | None
    """Payload dissectors, if rules check the messages."""
    judge: MessageRows | None
    """The object that checks the messages; None if no rule applies."""
    is_written: bool
    keeps: bool
    """Whether to keep the octets of the incomplete message."""
    awaits: int
    """Time (ns) until which the next octets cause no finding; 0 if their time does not matter."""
    role: int = 0
    """`ASKS` or `REPLIES` if its messages must alternate with the other side's, otherwise 0."""
    subscribed: Names = ()
    """Subscriptions of the other side if each message must match one of them, otherwise empty."""

    def of(self, stream: Stream) -> PlainSide:
        """Return the same state for the side `stream`; faster than `_replace`."""
        return PlainSide(self.reading, stream, *self[2:])

    @property
    def wants_rows(self) -> bool:
        if self.judge is None or self.is_written:
            return self.is_written
        return self.reading is not None and self.reading.messages.are_wanted()

    @property
    def is_looked_into(self) -> bool:
        return self.is_written or (self.payloads is not None and self.payloads.wants_rows)


MATCHED = frozenset({"REQ", "REP", "DISH"}) | DISTRIBUTING
"""Socket types whose messages are compared with those of the other side."""


@functools.cache
def needs_no_rules(socket_type: str | None, peer_socket_type: str | None) -> bool:
    """Whether no rule applies to messages between these socket types."""
    types = {socket_type, peer_socket_type}
    rules = ROW_RULES.get(socket_type or "", ())
    return (
        types <= PEERS.keys()
        and not types & MATCHED
        and not any(rule.peer is None or rule.peer == peer_socket_type for rule in rules)
    )


def plain_sides(connection: ZmtpConnection) -> dict[int, PlainSide]:
    """Return, by number, the sides of a quiet connection that the fast path can read.

    Empty if it cannot read the connection.
    """
    tcp = connection.tcp
    if tcp.is_to_itself or any(side.plain < 0 or side.pieces for side in tcp.tcp):
        return {}
    roles, subscribed = _roles(connection), [_subscribed(connection, number) for number in (0, 1)]
    is_in_order = roles != NO_ROLES or any(subscribed)
    judged = {number for number in (0, 1) if not is_in_order and _is_judged(connection, number)}
    if len(judged) == 1 and _is_silent(connection, *judged):  # for example, any message of a PULL is a finding
        numbers, is_judged = {0, 1} - judged, False
    else:  # messages of one side may affect the check of the other
        numbers, is_judged = {0, 1}, bool(judged)
    readings = {number: _reading(connection, number, is_judged) for number in numbers}
    if any(reading is None and not _is_silent(connection, number) for number, reading in readings.items()):
        return {}
    return {
        number: _side(connection, number, reading, is_judged)._replace(
            role=roles[number], subscribed=subscribed[number]
        )
        for number, reading in readings.items()
        if reading is not None
    }


def _roles(connection: ZmtpConnection) -> tuple[int, int]:
    """Return the roles of both sides as requester and replier.

    Zeros if the connection must be checked even while requests and replies alternate.
    """
    one, other = connection.streams
    roles = ROLES.get((one.socket_type, other.socket_type), NO_ROLES)
    rows = connection.rows
    is_simple = all(_is_simple(connection, number) for number in (0, 1))
    return roles if is_simple and rows.requests.is_alternating and not any(rows.zre_sides) else NO_ROLES


def awaits_subscription(connection: ZmtpConnection) -> bool:
    """Whether a side publishes, and the other side has no subscriptions yet, or more than a few."""
    topics = connection.rows.topics
    return any(_is_publishing(connection, number) and not topics.few_of(1 - number) for number in (0, 1))


def _is_publishing(connection: ZmtpConnection, number: int) -> bool:
    streams = connection.streams
    return streams[number].socket_type in PUBLISHERS and streams[1 - number].socket_type in SUBSCRIBERS


def _subscribed(connection: ZmtpConnection, number: int) -> Names:
    """Return the subscriptions that all messages of a publishing side, 0 or 1, must match.

    Empty if the messages must be checked on the slow path.
    """
    rows = connection.rows
    if not _is_publishing(connection, number) or not _is_simple(connection, number) or any(rows.zre_sides):
        return ()
    return rows.topics.few_of(1 - number)


def _is_silent(connection: ZmtpConnection, number: int) -> bool:
    """Whether a side has sent no messages, or is a subscriber, which sends few."""
    messages = connection.streams[number].messages
    return messages.socket_type in SUBSCRIBERS or not (messages.message_count or messages.in_clear.open_frames)


def _is_judged(connection: ZmtpConnection, number: int) -> bool:
    types = [stream.socket_type for stream in connection.streams]
    return any(connection.rows.zre_sides) or not needs_no_rules(types[number], types[1 - number])


def _reading(connection: ZmtpConnection, number: int, is_judged: bool) -> Reading | None:
    """Return the `Reading` of a side if the fast path may read this side, otherwise None.

    `is_judged`: rules check its messages.
    """
    stream = connection.streams[number]
    reading, assembly = stream.plain_reading(), stream.messages.in_clear
    if reading is None or reading.reader.position > LARGEST_PLACE:
        return None
    if assembly.open_frames > MAX_OPEN or stream.held_octets.size > MAX_HELD:
        return None
    return reading if is_judged or _is_asked_alone(connection, number) else None


def _is_simple(connection: ZmtpConnection, number: int) -> bool:
    """Whether a side was captured completely, and can be dissected without the other side."""
    reading = connection.streams[number].plain_reading()
    if reading is None or reading.confidence != "proven":
        return False
    return _is_asked_alone(connection, number)


def _is_asked_alone(connection: ZmtpConnection, number: int) -> bool:
    """Whether the messages of a side can be dissected without those of the other side."""
    payloads = connection.rows.payloads_of(connection.streams[number].messages.in_clear)
    return payloads is None or not (payloads.asks_about_all or payloads.has_asked(FOLLOWED))


def _side(connection: ZmtpConnection, number: int, reading: Reading, is_judged: bool) -> PlainSide:
    messages, rows, regime = reading.messages, connection.rows, reading.reader.regime
    return PlainSide(
        reading=reading,
        stream=messages.in_clear.stream,
        regime=regime,
        confidence=reading.confidence,
        version=reading.version_of_records,
        peer_socket_type=connection.streams[1 - number].socket_type,
        settled=reading.arrivals.settled,
        limit=messages.limit,
        payloads=rows.payloads_of(messages.in_clear),
        judge=rows if is_judged else None,
        is_written=connection.options.records,
        keeps=messages.are_wanted(),
        awaits=connection.relations.awaits(number),
    )
