"""The outcome of a connection: its record, and its counts in the summary."""

from __future__ import annotations

from typing import Any, NamedTuple

from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.sink import Summary, count_word
from zmtpscope.dissect.stream.reading import version_of_records
from zmtpscope.dissect.stream.side_stream import SideStream
from zmtpscope.dissect.tcp.connection import Connection, TcpSide
from zmtpscope.dissect.tcp.sequence import distance
from zmtpscope.zmtp.regime import SILENT_FORMS
from zmtpscope.zmtp.side import SideReader


class SideOutcome(NamedTuple):
    """What a side announced, and counts of its messages and octets."""

    socket_type: str | None
    identity: str | None
    end: int
    """Octets of the stream, holes included."""
    units: int
    """Greetings, commands and messages."""
    messages: int = 0
    frames: int = 0
    body_octets: int = 0
    sealed: int = 0
    opened_boxes: int = 0
    gaps: int = 0
    unfinished: int = 0
    undissected: int = 0
    passed: int = 0
    """Octets for a proxy; also counted as undissected."""


class CurveOutcome(NamedTuple):
    """What the CURVE keys showed: a key was proven, a key file names the connection, a box was decrypted."""

    is_proven: bool
    is_named: bool
    is_opened: bool


class Outcome(NamedTuple):
    version: str | None
    is_websocket: bool
    mechanism: str | None
    handshake: str
    security_server: int | None
    confidence: str
    sides: tuple[SideOutcome, SideOutcome]
    curve: CurveOutcome | None = None
    """The outcome of keys, if there were any and there was a box."""


def outcome_of(view: ConnectionView) -> Outcome:
    """Determine the outcome of an ended connection: version, mechanism, handshake, and the counts of both sides."""
    streams = view.streams
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
    announced = mechanism(readers)
    return Outcome(
        version=version_of_records(view.version or _version_found(readers), announced),
        is_websocket=view.is_websocket,
        mechanism=announced,
        handshake=handshake(view),
        security_server=server,
        confidence="likely" if "likely" in confidences else confidences[0] if confidences else "guess",
        sides=(_outcome_of_side(streams[0]), _outcome_of_side(streams[1])),
        curve=_outcome_of_keys(view, announced),
    )


def _version_found(readers: list[SideReader | None]) -> str | None:
    """Return "1.0" if a side without a captured start has the frame format of ZMTP 1.0, which no other version uses."""
    found = any(reader is not None and reader.regime.is_old for reader in readers)
    return "1.0" if found else None


def _outcome_of_side(stream: SideStream) -> SideOutcome:
    messages, outputs = stream.messages, stream.outputs
    return SideOutcome(
        socket_type=stream.socket_type,
        identity=stream.identity,
        end=stream.end,
        units=stream.unit_octets,
        messages=messages.message_count,
        frames=messages.frame_count,
        body_octets=messages.body_octets,
        sealed=messages.in_clear.sealed,
        opened_boxes=messages.opened_boxes,
        gaps=outputs.gaps,
        unfinished=outputs.unfinished,
        undissected=outputs.undissected,
        passed=stream.passed,
    )


def _outcome_of_keys(view: ConnectionView, announced: str | None) -> CurveOutcome | None:
    """Return the result of trying the CURVE keys; None without CURVE or without an encrypted box."""
    session = view.session
    if session is None or announced != "CURVE":
        return None
    if not any(stream.messages.message_count for stream in view.streams) and handshake(view) != "complete":
        return None
    return CurveOutcome(session.server is not None, session.named, session.key is not None)


def mechanism(readers: list[SideReader | None]) -> str | None:
    """Return the mechanism that both sides announced, or the only captured side; None if they differ."""
    mechanisms = {reader.mechanism for reader in readers if reader is not None and reader.mechanism is not None}
    return mechanisms.pop() if len(mechanisms) == 1 else None


def handshake(view: ConnectionView) -> str:
    """Return how far the handshake got: "complete", "failed", "incomplete", or "unseen" if it was not captured."""
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


def values(outcome: Outcome, connection: Connection) -> dict[str, Any]:
    """Return the fields that only connection records have, in the order of the record type."""
    first = connection.closing
    (one, other), (here, there) = outcome.sides, connection.tcp
    (ip_0, port_0), (ip_1, port_1) = connection.addresses
    return {
        "start_ns": connection.start.time,
        "end_ns": max(connection.start.time, connection.end.time),
        "ip_0": ip_0,
        "port_0": port_0,
        "ip_1": ip_1,
        "port_1": port_1,
        "opened_by": connection.opened_by,
        "security_server": outcome.security_server,
        "version": outcome.version,
        "transport": "ws" if outcome.is_websocket else "tcp",
        "mechanism": outcome.mechanism,
        "socket_type_0": one.socket_type,
        "socket_type_1": other.socket_type,
        "identity_0": one.identity,
        "identity_1": other.identity,
        "handshake": outcome.handshake,
        "close": connection.close_how,
        "closed_by": None if first is None else first[1],
        "closed_ns": None if first is None else first[0].time,
        "fin_ns_0": None if here.fin is None else here.fin.time,
        "fin_ns_1": None if there.fin is None else there.fin.time,
        "fin_acknowledged": connection.fin_acknowledged,
        "rst_ns_0": connection.reset_time(0),
        "rst_ns_1": connection.reset_time(1),
        "reset_by": connection.reset_by,
        "syn_ttl": connection.hops[0] if connection.reset is not None else None,
        "rst_ttl": connection.hops[1] if connection.reset is not None else None,
        "rst_ack": connection.resets_with_ack if connection.reset is not None else None,
        "idle_ns": connection.idle,
        "only_side": connection.only_side,
        "messages_0": one.messages,
        "messages_1": other.messages,
        "sealed_0": one.sealed,
        "sealed_1": other.sealed,
        "bytes_0": one.body_octets,
        "bytes_1": other.body_octets,
        "stream_bytes_0": one.end,
        "stream_bytes_1": other.end,
        "stalls_0": 0 if here.stalls is None else here.stalls.count,
        "stalls_1": 0 if there.stalls is None else there.stalls.count,
        "stalled_ns_0": 0 if here.stalls is None else here.stalls.duration,
        "stalled_ns_1": 0 if there.stalls is None else there.stalls.duration,
        "gap_bytes": one.gaps + other.gaps,
        "unseen_bytes": unseen(here, there) + unseen(there, here),
        "unfinished_bytes": one.unfinished + other.unfinished,
        "undissected_bytes": one.undissected - one.passed + other.undissected - other.passed,
        "confidence": outcome.confidence,
    }


def ends_and_times(client: Stream, start: int, end: int, closed_by: int, fins: tuple[int, int]) -> dict[str, Any]:
    """Return the fields that differ between connections with the same outcome: addresses and times.

    Both sides sent a FIN. `start`, `end` and `fins` are times (ns); `closed_by` is the side of the first FIN.
    """
    return {
        "start_ns": start,
        "end_ns": max(start, end),
        "ip_0": client.src_ip,
        "port_0": client.src_port,
        "ip_1": client.dst_ip,
        "port_1": client.dst_port,
        "closed_by": closed_by,
        "closed_ns": fins[closed_by],
        "fin_ns_0": fins[0],
        "fin_ns_1": fins[1],
    }


def unseen(side: TcpSide, peer: TcpSide) -> int:
    """Return how many octets the peer acknowledged after the last captured octet of a side that is open."""
    if side.ended or side.next < 0 or peer.acknowledged < 0:
        return 0
    return max(0, distance(peer.acknowledged, side.next))


def count(outcome: Outcome, number: int, summary: Summary) -> None:
    """Add `number` connections with this outcome to the summary. The counts in the outcome are their totals."""
    without = "none" if outcome.version in ("1.0", "2.0") else "unknown"
    summary.connections += number
    summary.versions[(outcome.version or "unknown") + (" over WebSocket" if outcome.is_websocket else "")] += number
    count_word(summary.mechanisms, outcome.mechanism or without, number)
    summary.handshakes[outcome.handshake] += number
    if outcome.curve is not None:
        summary.curve_connections += number
        summary.proven_connections += number * outcome.curve.is_proven
        summary.named_connections += number * outcome.curve.is_named
        summary.opened_connections += number * outcome.curve.is_opened
    sums = summary.sums
    for side in outcome.sides:
        count_word(summary.socket_types, side.socket_type or "unknown", number)
        summary.messages += side.messages
        summary.sealed += side.sealed
        summary.frames += side.frames
        summary.body_octets += side.body_octets
        summary.opened_boxes += side.opened_boxes
        sums.stream += side.end
        sums.units += side.units
        sums.gaps += side.gaps
        sums.unfinished += side.unfinished
        sums.undissected += side.undissected


def count_tcp(connection: Connection, summary: Summary) -> None:
    """Add to the summary how a connection was closed, and how many octets were captured."""
    summary.closes[connection.close_how] += 1
    sums = summary.sums
    for tcp in connection.tcp:
        sums.captured += tcp.captured
        sums.repeated += tcp.repeated
        sums.conflicting += tcp.conflicting
        sums.late += tcp.late
