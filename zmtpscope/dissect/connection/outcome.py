"""How a connection came out: the fields of its record, and what it adds to the summary."""

from __future__ import annotations

from typing import Any

from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.sink import Summary, count_word
from zmtpscope.dissect.stream.reading import version_of_records
from zmtpscope.dissect.tcp.connection import TcpSide
from zmtpscope.dissect.tcp.sequence import distance
from zmtpscope.zmtp.regime import SILENT_FORMS
from zmtpscope.zmtp.side import SideReader


def values(view: ConnectionView) -> dict[str, Any]:
    """The own fields of the connection record."""
    connection, streams = view.tcp, view.streams
    readers = [stream.reader for stream in streams]
    roles = [reader.regime.role if reader is not None else None for reader in readers]
    if view.session is not None:
        roles = [role or view.session.role(side) for side, role in enumerate(roles)]
    server = roles.index("server") if "server" in roles else 1 - roles.index("client") if "client" in roles else None
    confidences = [
        stream.reading.confidence if stream.reading.reader.unreliable_from is None else "likely"
        for stream in streams
        if stream.reading is not None
    ]
    first = connection.closing
    here, there = streams[0].stream, streams[1].stream
    return {
        "start_ns": connection.start.time,
        "end_ns": max(connection.start.time, connection.end.time),
        "ip_0": here.src_ip,
        "port_0": here.src_port,
        "ip_1": there.src_ip,
        "port_1": there.src_port,
        "opened_by": connection.opened_by,
        "security_server": server,
        "version": version_of_records(view.version, mechanism(readers)),
        "transport": "ws" if view.is_websocket else "tcp",
        "mechanism": mechanism(readers),
        "handshake": handshake(view),
        "close": connection.close_how,
        "closed_by": None if first is None else first[1],
        "closed_ns": None if first is None else first[0].time,
        **{f"fin_ns_{side.number}": None if side.fin is None else side.fin.time for side in connection.tcp},
        **{f"rst_ns_{side}": connection.reset_time(side) for side in (0, 1)},
        "reset_by": connection.reset_by,
        "idle_ns": connection.idle,
        "only_side": connection.only_side,
        "gap_bytes": sum(stream.outputs.gaps for stream in streams),
        "unseen_bytes": sum(unseen(side, connection.tcp[1 - side.number]) for side in connection.tcp),
        "unfinished_bytes": sum(stream.outputs.unfinished for stream in streams),
        "undissected_bytes": sum(stream.outputs.undissected for stream in streams),
        "confidence": "likely" if "likely" in confidences else confidences[0] if confidences else "guess",
        **{f"socket_type_{side}": stream.socket_type for side, stream in enumerate(streams)},
        **{f"identity_{side}": stream.identity for side, stream in enumerate(streams)},
        **{f"messages_{stream.side}": stream.messages.message_count for stream in streams},
        **{f"sealed_{stream.side}": stream.messages.in_clear.sealed for stream in streams},
        **{f"bytes_{stream.side}": stream.messages.body_octets for stream in streams},
        **{f"stream_bytes_{stream.side}": stream.end for stream in streams},
        **{f"stalls_{side.number}": 0 if side.stalls is None else side.stalls.count for side in connection.tcp},
        **{f"stalled_ns_{side.number}": 0 if side.stalls is None else side.stalls.duration for side in connection.tcp},
    }


def unseen(side: TcpSide, peer: TcpSide) -> int:
    """Octets that the peer has and the capture has not, behind the last that was captured of a side that goes on."""
    if side.ended or side.next < 0 or peer.acknowledged < 0:
        return 0
    return max(0, distance(peer.acknowledged, side.next))


def mechanism(readers: list[SideReader | None]) -> str | None:
    """What both sides announced, if that is the same."""
    mechanisms = {reader.mechanism for reader in readers if reader is not None and reader.mechanism is not None}
    return mechanisms.pop() if len(mechanisms) == 1 else None


def handshake(view: ConnectionView) -> str:
    """complete, failed, incomplete or unseen."""
    decision = view.negotiation.decision
    from_start = any(tcp.begun for tcp in view.tcp.tcp)
    if decision is None and not (from_start and view.negotiation.forced):
        return "unseen"
    if decision is not None and SILENT_FORMS.issuperset(decision.forms) and not from_start:
        return "unseen"
    readers = [stream.reader for stream in view.streams if stream.reader is not None]
    if any(reader.error_seen for reader in readers):
        return "failed"
    if decision is not None and decision.outcome not in ("agreed", "1.0 frames"):
        return "failed" if view.tcp.has_ended else "incomplete"
    if all(stream.handshake_done for stream in view.streams):
        return "complete"
    return "incomplete"


def count(view: ConnectionView, summary: Summary) -> None:
    """Add the connection to the summary of the run."""
    announced = mechanism([stream.reader for stream in view.streams])
    version = version_of_records(view.version, announced)
    without = "none" if version in ("1.0", "2.0") else "unknown"
    summary.connections += 1
    summary.versions[(version or "unknown") + (" over WebSocket" if view.is_websocket else "")] += 1
    count_word(summary.mechanisms, announced or without)
    summary.handshakes[handshake(view)] += 1
    summary.closes[view.tcp.close_how] += 1
    if view.session is not None and _has_sealed(view):
        summary.curve_connections += 1
        summary.proven_connections += view.session.server is not None
        summary.named_connections += view.session.named
        summary.opened_connections += view.session.key is not None
    sums = summary.sums
    for stream, tcp in zip(view.streams, view.tcp.tcp, strict=True):
        count_word(summary.socket_types, stream.socket_type or "unknown")
        summary.messages += stream.messages.message_count
        summary.sealed += stream.messages.in_clear.sealed
        summary.frames += stream.messages.frame_count
        summary.body_octets += stream.messages.body_octets
        summary.opened_boxes += stream.messages.opened_boxes
        sums.stream += stream.end
        sums.units += stream.unit_octets
        sums.gaps += stream.outputs.gaps
        sums.unfinished += stream.outputs.unfinished
        sums.undissected += stream.outputs.undissected
        sums.captured += tcp.captured
        sums.repeated += tcp.repeated
        sums.conflicting += tcp.conflicting
        sums.late += tcp.late


def _has_sealed(view: ConnectionView) -> bool:
    """Whether a connection has CURVE and came so far that there is something to open."""
    is_curve = mechanism([stream.reader for stream in view.streams]) == "CURVE"
    said_something = any(stream.messages.message_count for stream in view.streams)
    return is_curve and (said_something or handshake(view) == "complete")
