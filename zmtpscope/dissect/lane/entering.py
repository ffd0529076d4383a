"""Which connections the lane may read, and what it takes to read them there."""

from __future__ import annotations

import functools

from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.findings.row_rules import ROW_RULES
from zmtpscope.dissect.lane.sides import MOST_HELD, MOST_OPEN, LaneSide, UnderWay
from zmtpscope.dissect.records.topics import DISTRIBUTING
from zmtpscope.zmtp.socket_types import PEERS

MATCHED = frozenset({"REQ", "REP", "DISH"}) | DISTRIBUTING
"""Socket types of whose messages some are compared with those of the other side."""


@functools.cache
def is_nothing_to_say(socket_type: str | None, peer_socket_type: str | None) -> bool:
    """Whether no rule is about data messages between sockets of such types, from the one to the other."""
    types = {socket_type, peer_socket_type}
    rules = ROW_RULES.get(socket_type or "", ())
    return (
        types <= PEERS.keys()
        and not types & MATCHED
        and not any(rule.peer is None or rule.peer == peer_socket_type for rule in rules)
    )


def sides_in_lane(connection: ZmtpConnection) -> dict[int, LaneSide]:
    """Those sides of a connection that the lane may read, by number; the other one says nothing meanwhile. None where
    it cannot read the connection at all."""
    tcp, options = connection.tcp, connection.options
    if tcp.closed or options.details or options.index or options.frames or options.keys is not None:
        return {}
    if tcp.is_to_itself or any(side.plain < 0 or side.stalls is not None or side.pieces for side in tcp.tcp):
        return {}
    if not connection.is_quiet():
        return {}
    sides = {number: _side(connection, number) for number in (0, 1)}
    return {number: side for number, side in sides.items() if side is not None}


def _side(connection: ZmtpConnection, number: int) -> LaneSide | None:
    """What the lane needs of a side, None where it does not read it."""
    stream, peer, rows = connection.streams[number], connection.streams[1 - number], connection.rows
    reading = stream.plain_reading()
    if reading is None or connection.relations.is_waiting_for(number):
        return None
    regime, assembly, messages = reading.reader.regime, stream.messages.in_clear, stream.messages
    payloads = rows.payloads_of(assembly)
    is_judged = any(rows.zre_sides) or not is_nothing_to_say(regime.socket_type, peer.socket_type)
    if not is_judged and payloads is not None and not payloads.is_idle:
        return None
    if assembly.open_frames > MOST_OPEN or stream.held_octets.size > MOST_HELD:
        return None
    arrivals, held, frames = reading.arrivals, stream.held_octets.give_away(), assembly.give_away()
    starts = assembly.message_start, assembly.frame_start, assembly.frame_end
    return LaneSide(
        reading=reading,
        stream=assembly.stream,
        regime=regime,
        confidence=reading.confidence,
        version=reading.version_of_records,
        peer_socket_type=peer.socket_type,
        settled=arrivals.settled,
        limit=messages.limit,
        payloads=payloads,
        judge=rows if is_judged else None,
        is_written=connection.options.records,
        keeps=messages.are_wanted(),
        begin=arrivals.begin,
        pieces=arrivals.rows(),
        held=held,
        under_way=UnderWay(frames, *starts) if frames.offsets else None,
    )
