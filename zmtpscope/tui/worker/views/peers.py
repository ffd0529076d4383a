"""The view of peers: their connections, when they were connected, and how their connections ended."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zmtpscope.diagnosis.across.endings import ending_of
from zmtpscope.diagnosis.across.peers import Peer, peers
from zmtpscope.diagnosis.across.words import address
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.export.top.table import scaled
from zmtpscope.tui.requests import Table, Wanted
from zmtpscope.tui.worker.views.derived import DerivedView
from zmtpscope.tui.worker.views.tables import Column, Line, seconds, shown_times, table_of
from zmtpscope.tui.worker.views.view import AS_IT_IS
from zmtpscope.words import counted

CAUSES = {
    "closed": "closed",
    "reset": "sent RST",
    "heartbeat": "closed: no PONG arrived",
    "unacknowledged": "gave up: no acknowledgment arrived",
    "middlebox": "was reset by a device on the path",
    "error": "closed after an ERROR",
    "handshake": "closed in the handshake",
    "violation": "closed: the other side violated the protocol",
}

LIFELINE = 40
CONNECTED, ENDED, AWAY = "█", "┃", "·"


class PeersView(DerivedView):
    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        """Return a row for each peer, listening ones first."""
        shown_time = shown_times(self.store, wanted.time)
        columns = (
            Column("peer", "PEER", is_name=True),
            Column("type", "TYPE"),
            Column("remote", "CONNECTS TO", is_name=True),
            Column("state", "STATE", rank=1),
            Column("connections", "CONNS", scaled, is_number=True, rank=2),
            Column("failed", "FAILED", scaled, is_number=True, rank=2),
            Column("first", "FIRST", shown_time, is_number=True, rank=3),
            Column("last", "LAST", shown_time, is_number=True, rank=3),
            Column("every", "EVERY", seconds, is_number=True, rank=3),
            Column("lifeline", "LIFELINE", self._lifeline, order=len, is_plot=True),
        )
        found = peers(self.derived.knowledge)
        text = [
            f"{counted(len(found), 'peer')}, each with all its connections, also after a return",
            f"lifelines: {CONNECTED} connected, {ENDED} a connection ended, {AWAY} away",
        ]
        return table_of(columns, list(map(self._line, found)), wanted, text)

    def _line(self, peer: Peer) -> Line:
        values = peer.record(0).values
        remote = None if peer.remote is None else address(peer.remote)
        shown = {
            "peer": values["name"],
            "type": values["socket_type"],
            "remote": remote,
            "state": values["state"],
            "connections": values["connections"],
            "failed": values["failed"] or None,
            "first": values["start_ns"],
            "last": values["end_ns"],
            "every": values["cadence_ns"],
            "lifeline": peer.connections,
        }
        key = f"{peer.name} {peer.socket_type} {remote}"
        return Line(key, shown, children=partial(self._connections, key, peer) if peer.connections else None)

    def _connections(self, key: str, peer: Peer) -> Sequence[Line]:
        return [self._connection(f"{key} {each.conn_id}", peer, each) for each in peer.connections]

    def _connection(self, key: str, peer: Peer, connection: ObservedConnection) -> Line:
        ending, own = ending_of(connection), peer.side_of(connection)
        other = connection.sides[1 - own]
        with_whom = " ".join(filter(None, (other.socket_type, address((other.ip, other.port)))))
        if ending is None:
            state = "open" if connection.is_open else "end not captured"
        else:
            state = f"{'this side' if ending.side == own else 'the other side'} {CAUSES[ending.cause]}"
        values = {
            "remote": with_whom,
            "state": state,
            "first": connection.start.ns,
            "last": connection.last_ns,
            "lifeline": (connection,),
        }
        return Line(key, values, f"conn == {connection.stream.conn}")

    def _lifeline(self, connections: Sequence[ObservedConnection]) -> str:
        start, end = self.derived.knowledge.first_ns or 0, self.derived.knowledge.last_ns
        scale = LIFELINE / max(1, end + 1 - start)
        line, ends = [AWAY] * LIFELINE, set[int]()
        for each in connections:
            ending = ending_of(each)
            closed = each.last_ns if ending is None else ending.moment.ns
            is_open = ending is None and each.is_open
            low, high = int((each.start.ns - start) * scale), int(((end if is_open else closed) - start) * scale)
            line[low : high + 1] = CONNECTED * (high + 1 - low)
            if not is_open:
                ends.add(high)
        return "".join(ENDED if place in ends else shown for place, shown in enumerate(line))
