"""ZRE across connections: nodes, pairs of connections between two nodes, and their consistency (zre.md 7 and 9).

Facts arrive in capture order. A check that waits for an event (an answer, the other connection) is evaluated with the
first fact after its deadline, or at the end. Memory is bounded; the node unused for longest is forgotten.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address

from zmtpscope.dissect.arrivals import Arrival, Stamp, stamp
from zmtpscope.dissect.records.facts import Endpoint, ZreBeacon, ZreClose, ZreCommand, ZreSide, reference
from zmtpscope.dissect.records.notes import Note, ZrePair
from zmtpscope.payloads.zre.node_state import MAX_GROUPS
from zmtpscope.records import SECOND
from zmtpscope.zmtp.reader import Finding

MAX_NODES = 4096
MAX_CONNECTIONS = 1024
MAX_WAITING = 16_384
"""Deadlines to remember; later checks are skipped."""

ONE_SIDED = 5 * SECOND
"""Within this time (ns) a node should connect back (zre.md 9)."""
SILENT = 30 * SECOND
"""Time limit (ns) for answers to PING and for the next beacon (zre.md 7)."""
LONELY = 5 * SECOND
"""After beacons for this long, other nodes should have connected to a node."""

NOWHERE: Endpoint = ("", 0)
NEVER = Stamp(-1, 0)


@dataclass(slots=True, eq=False)
class Sender:
    """A connection on which a ZRE node sends to another node.

    `hello` is when its HELLO arrived. `over`: it has ended. `lossy`: octets were lost. `paired`: both nodes have sent
    HELLO to each other.
    """

    side: ZreSide
    hello: Stamp | None = None
    over: bool = False
    lossy: bool = False
    paired: bool = False


@dataclass(slots=True, eq=False)
class Node:
    """A ZRE node; `groups` is None if no HELLO was captured."""

    uuid: str
    name: str | None = None
    endpoint: str | None = None
    mailboxes: set[Endpoint] = field(default_factory=set)
    groups: set[str] | None = None
    changes: dict[tuple[str, str, int], Change] = field(default_factory=dict)
    """JOINs and LEAVEs of the last second, by command, group and status."""
    left: dict[str, int] = field(default_factory=dict)
    """Last JOIN or LEAVE by group; a SHOUT within a second of it may be in flight."""
    senders: list[Sender] = field(default_factory=list)
    senders_to: dict[Endpoint, list[Sender]] = field(default_factory=dict)
    first_beacon: ZreBeacon | None = None
    last_beacon: ZreBeacon | None = None
    ports: list[int] = field(default_factory=list)
    """Ports in its beacons; adjacent entries differ."""
    address_written: bool = False
    watched: bool = False
    """Whether a deadline for its next beacon is set."""
    gone: bool = False
    """Whether the node announced its end, or is presumed dead."""

    @property
    def who(self) -> str:
        return self.name or self.uuid[:6]


@dataclass(slots=True, order=True)
class Deadline:
    """A check to make at `time` (ns). `number` orders checks of equal times."""

    time: int
    number: int
    evaluate: Callable[[Arrival], None] = field(compare=False)


@dataclass(slots=True, eq=False)
class Change:
    """A JOIN or LEAVE, which a node must send on all its connections.

    `missing` are those on which it has not sent it.
    """

    command: str
    group: str
    status: int
    missing: list[Sender]


class Network:
    def __init__(self, spoken_with: Set[Endpoint]) -> None:
        self.nodes: OrderedDict[str, Node] = OrderedDict()
        self.owners: dict[Endpoint, str] = {}
        self.senders: dict[tuple[str, int | None], Sender] = {}
        """Open connections, by conn_id and side."""
        self.spoken_with = spoken_with
        self.deadlines: list[Deadline] = []
        self.pings: dict[Sender, list[ZreCommand]] = {}
        """PINGs without PING-OK."""
        self.now = self.waited = 0
        self.beacon_versions: dict[int, str] = {}
        self.versions_written = False
        self.notes: list[Note | ZrePair] = []

    def evaluate(self, fact: ZreCommand | ZreClose | ZreBeacon) -> list[Note | ZrePair]:
        """Return findings and pairs that result from a fact; facts arrive in capture order."""
        self._advance_clock(fact.arrival, fact.arrival.time)
        if isinstance(fact, ZreBeacon):
            self._beacon(fact)
        elif isinstance(fact, ZreClose):
            self._close(self._sender(fact.sender), fact.captured)
        else:
            self._command(fact)
        return self._drain()

    def finish(self, end: Arrival) -> list[Note | ZrePair]:
        self._advance_clock(end, end.time)
        for node in self.nodes.values():
            first, last = node.first_beacon, node.last_beacon
            if first is None or last is None or node.senders or not self.spoken_with.isdisjoint(node.mailboxes):
                continue
            if last.arrival.time - first.arrival.time >= LONELY:
                self._note_beacon("ZRE-BEACON-07", last, end, f"node {node.who}, {_place(last)}")
        return self._drain()

    def _drain(self) -> list[Note | ZrePair]:
        notes, self.notes = self.notes, []
        return notes

    def _sender(self, side: ZreSide) -> Sender:
        return self.senders.setdefault((side.stream.conn_id, side.stream.side), Sender(side))

    # -- beacons -----------------------------------------------------------------------------------------------------

    def _beacon(self, beacon: ZreBeacon) -> None:
        node = self._node(beacon.fields["uuid"])
        port, version = beacon.fields.get("port"), beacon.fields["version"]
        self._other_version(beacon, version)
        if port is None:
            return
        if port == 0:
            node.gone = True
            node.last_beacon = beacon
            return
        before, node.last_beacon = node.last_beacon, beacon
        node.first_beacon = node.first_beacon or beacon
        node.gone = False
        address = beacon.stream.src_ip
        self._own(node, (address, port))
        if node.ports[-1:] != [port]:
            node.ports = [*node.ports, port][-3:]
        if not node.address_written and before is not None:
            other = before.stream.src_ip
            if other != address:
                node.address_written = True
                self._note_beacon("ZRE-BEACON-05", beacon, beacon.arrival, f"node {node.who} at {other} and {address}")
            elif len(node.ports) == 3 and node.ports[0] == node.ports[2]:
                node.address_written = True
                detail = f"node {node.who} at {address}, ports {node.ports[1]} and {node.ports[2]}"
                self._note_beacon("ZRE-BEACON-05", beacon, beacon.arrival, detail)
        if not node.watched:
            node.watched = True
            self._wait(beacon.arrival.time + SILENT, partial(self._silent, node))

    def _silent(self, node: Node, end: Arrival) -> None:
        """Report a node that has stopped sending beacons, or set its deadline again."""
        last = node.last_beacon
        node.watched = False
        if last is None or node.gone:
            return
        if last.arrival.time + SILENT >= self.now:
            node.watched = True
            self._wait(last.arrival.time + SILENT, partial(self._silent, node))
        elif last is not node.first_beacon:
            node.gone = True
            self._note_beacon("ZRE-BEACON-06", last, end, f"node {node.who}, {_place(last)}")

    def _other_version(self, beacon: ZreBeacon, version: int) -> None:
        """Report, once in a run, that nodes use both versions of beacons."""
        if version not in (1, 3):
            return
        self.beacon_versions.setdefault(version, beacon.fields["uuid"])
        if len(self.beacon_versions) == 2 and not self.versions_written:
            self.versions_written = True
            one, other = self.beacon_versions[1][:6], self.beacon_versions[3][:6]
            self._note_beacon("ZRE-BEACON-08", beacon, beacon.arrival, f"{one} sends version 1, {other} version 3")

    def _note_beacon(self, id_: str, beacon: ZreBeacon, decided: Arrival, detail: str) -> None:
        finding = Finding(id_, None, 0, None, detail)
        self.notes.append(Note(0, finding, stamp(beacon.arrival), decided.ordinal, stream=beacon.stream))

    # -- commands ----------------------------------------------------------------------------------------------------

    def _command(self, fact: ZreCommand) -> None:
        sender, command = self._sender(fact.sender), fact.fields["command"]
        sender.lossy = fact.lossy
        node = None if fact.sender.uuid is None else self._node(fact.sender.uuid)
        if command == "HELLO":
            self._hello(sender, fact, node)
        elif node is not None and command in ("JOIN", "LEAVE"):
            self._membership(sender, fact, node)
        elif command == "SHOUT":
            self._shout(fact)
        elif command == "PING":
            self._ping(sender, fact)
        elif command == "PING-OK":
            self._ping_ok(fact.sender.uuid)

    def _hello(self, sender: Sender, fact: ZreCommand, node: Node | None) -> None:
        side = fact.sender
        sender.hello = sender.hello or stamp(fact.arrival)
        if node is None:
            return
        node.name = fact.fields.get("name") or node.name
        node.endpoint = fact.fields.get("endpoint")
        if (groups := fact.fields.get("groups")) is not None:
            node.groups = set(groups) if len(groups) <= MAX_GROUPS else None
        mailbox = mailbox_of(node.endpoint)
        mailboxes = len(node.mailboxes)
        if mailbox is not None:
            port = node.last_beacon.fields.get("port") if node.last_beacon is not None else None
            if port and port != mailbox[1]:
                self._note("ZRE-17", fact, f"HELLO has port {mailbox[1]}, the beacon {port}")
            self._own(node, mailbox)
        is_news = len(node.mailboxes) > mailboxes
        if len(node.senders) < MAX_CONNECTIONS and sender not in node.senders:
            is_news = True
            node.senders.append(sender)
            node.senders_to.setdefault(side.server or NOWHERE, []).append(sender)
        if side.whole:
            self._wait(fact.arrival.time + ONE_SIDED, partial(self._one_sided, sender, fact, node))
        for other in [*self._receivers(side), *(self._unpaired(node) if is_news else ())]:
            self._pair(fact, node, other)

    def _receivers(self, side: ZreSide) -> list[Node]:
        owner = self.owners.get(side.server) if side.server is not None else None
        return [self.nodes[owner]] if owner is not None and owner in self.nodes else []

    def _unpaired(self, node: Node) -> list[Node]:
        """Return the nodes to which this node is connected without being a pair."""
        servers = [each.side.server for each in node.senders if not (each.over or each.paired)]
        owners = [self.owners.get(server) for server in servers if server is not None]
        return [self.nodes[owner] for owner in dict.fromkeys(owners) if owner is not None and owner in self.nodes]

    def _close(self, sender: Sender, captured: bool) -> None:
        side = sender.side
        del self.senders[side.stream.conn_id, side.stream.side]
        if not captured:
            return  # the connection may continue after the capture
        sender.over = True
        self.pings.pop(sender, None)
        node = None if side.uuid is None else self.nodes.get(side.uuid)
        if node is not None and sender in (senders := node.senders_to.get(side.server or NOWHERE, [])):
            senders.remove(sender)

    def _pair(self, fact: ZreCommand, one: Node, other: Node) -> None:
        """Write the record of a pair of nodes, if both have sent HELLO to each other. `fact` is the last HELLO."""
        ahead, back = self._connection(one, other), self._connection(other, one)
        if ahead is None or back is None or (ahead.paired and back.paired):
            return
        ahead.paired = back.paired = True
        first, later = sorted((ahead, back), key=_hello_of)
        node_0, node_1 = (one, other) if first is ahead else (other, one)
        beacons = [node.first_beacon.arrival.time for node in (one, other) if node.first_beacon is not None]
        values = {
            "uuid_0": node_0.uuid,
            "uuid_1": node_1.uuid,
            "name_0": node_0.name,
            "name_1": node_1.name,
            "endpoint_0": node_0.endpoint,
            "endpoint_1": node_1.endpoint,
            "conn_0": first.side.stream.conn,
            "conn_1": later.side.stream.conn,
            "conn_id_0": first.side.stream.conn_id,
            "conn_id_1": later.side.stream.conn_id,
            "discovery_ns": fact.arrival.time - min(beacons) if beacons else None,
        }
        arrival = fact.arrival
        self.notes.append(ZrePair(fact.sender.stream, stamp(arrival), arrival.ordinal, fact.unit, values))

    def _connection(self, one: Node, other: Node) -> Sender | None:
        """Return the newest connection on which the node `one` sends to `other`, or None."""
        few, many = sorted((one.senders_to, other.mailboxes), key=len)
        found = [each for mailbox in few if mailbox in many for each in one.senders_to.get(mailbox, ())[-1:]]
        return max(found, key=_hello_of, default=None)

    def _one_sided(self, sender: Sender, fact: ZreCommand, node: Node, end: Arrival) -> None:
        if sender.over or sender.paired:
            return
        server = sender.side.server
        where = "" if server is None else f" to {server[0]}:{server[1]}"
        self._note("ZRE-12", fact, f"node {node.who} connected{where}, and the other node did not connect back", end)

    def _membership(self, sender: Sender, fact: ZreCommand, node: Node) -> None:
        fields = fact.fields
        group, status, command = fields.get("group"), fields.get("status"), fields["command"]
        if group is None or status is None:
            return
        if node.groups is not None:
            (node.groups.add if command == "JOIN" else node.groups.discard)(group)
            if len(node.groups) > MAX_GROUPS:
                node.groups = None
            node.left.pop(group, None)
            node.left[group] = fact.arrival.time
            if len(node.left) > MAX_GROUPS:
                del node.left[next(iter(node.left))]
        if (known := node.changes.get((command, group, status))) is not None:
            if sender in known.missing:
                known.missing.remove(sender)
            return
        missing = [
            other
            for other in node.senders
            if other is not sender and other.side.whole and not (other.over or other.lossy) and other.hello is not None
        ]
        change = Change(command, group, status, missing)
        if self._wait(fact.arrival.time + SECOND, partial(self._unseen, fact, node, change)):
            node.changes[command, group, status] = change

    def _unseen(self, fact: ZreCommand, node: Node, change: Change, end: Arrival) -> None:
        """Report the connections on which a JOIN or LEAVE is still missing a second after it was sent on another one.

        `fact` is the command that was sent, `end` the segment that shows the time.
        """
        del node.changes[change.command, change.group, change.status]
        for sender in change.missing:
            if not (sender.over or sender.lossy):
                seen = fact.sender.stream
                detail = f'{change.command} "{change.group}" of node {node.who}, sent to {seen.dst_ip}:{seen.dst_port}'
                finding, stream = Finding("ZRE-21", None, 0, None, detail), sender.side.stream
                at, refs = stamp(fact.arrival), (_reference(fact),)
                self.notes.append(Note(stream.side, finding, at, end.ordinal, refs, stream=stream))

    def _shout(self, fact: ZreCommand) -> None:
        group = fact.fields.get("group")
        for node in self._receivers(fact.sender):
            changed = node.left.get(str(group))
            recent = changed is not None and fact.arrival.time - changed <= SECOND
            if node.groups is not None and group not in node.groups and not recent:
                self._note("ZRE-19", fact, f'node {node.who} is not in "{group}"')

    def _ping(self, sender: Sender, fact: ZreCommand) -> None:
        if sender not in self.pings and len(self.pings) == MAX_CONNECTIONS:
            return
        if self._wait(fact.arrival.time + SILENT, partial(self._unanswered, sender, fact)):
            self.pings.setdefault(sender, []).append(fact)

    def _ping_ok(self, uuid: str | None) -> None:
        """Forget all unanswered PINGs to the node that sent a PING-OK.

        A node sends PING-OK on its own connection of the pair, not on the one of the PING.
        """
        if uuid is None:
            self.pings.clear()
            return
        answering = self.nodes.get(uuid)
        for pinging in list(self.pings):
            server = pinging.side.server
            if answering is None or server in answering.mailboxes or server not in self.owners:
                del self.pings[pinging]

    def _unanswered(self, sender: Sender, fact: ZreCommand, end: Arrival) -> None:
        if fact in (waiting := self.pings.get(sender, [])) and not sender.over:
            waiting.remove(fact)
            if not waiting:
                del self.pings[sender]
            self._note("ZRE-11", fact, f"sequence {fact.fields['sequence']}", end)

    # -- what they share ---------------------------------------------------------------------------------------------

    def _node(self, uuid: str) -> Node:
        node = self.nodes.get(uuid)
        if node is None:
            node = self.nodes[uuid] = Node(uuid)
            if len(self.nodes) > MAX_NODES:
                _, old = self.nodes.popitem(last=False)
                for mailbox in old.mailboxes:
                    self.owners.pop(mailbox, None)
        self.nodes.move_to_end(uuid)
        return node

    def _own(self, node: Node, mailbox: Endpoint) -> None:
        """Store that the node listens at this endpoint."""
        if len(node.mailboxes) < MAX_CONNECTIONS:
            node.mailboxes.add(mailbox)
            self.owners[mailbox] = node.uuid

    def _wait(self, time: int, evaluate: Callable[[Arrival], None]) -> bool:
        """Arrange that `evaluate` is called at `time` (ns); return False if too many checks are waiting."""
        if len(self.deadlines) == MAX_WAITING:
            return False
        self.waited += 1
        heapq.heappush(self.deadlines, Deadline(time, self.waited, evaluate))
        return True

    def _advance_clock(self, arrival: Arrival, time: int) -> None:
        """Make all checks with a deadline before `time` (ns); `arrival` is the segment that shows this time."""
        self.now = max(self.now, time)
        while self.deadlines and self.deadlines[0].time < self.now:
            heapq.heappop(self.deadlines).evaluate(arrival)

    def _note(self, id_: str, fact: ZreCommand, detail: str, decided: Arrival | None = None) -> None:
        stream, finding = fact.sender.stream, Finding(id_, fact.unit, fact.length, None, detail)
        ordinal = (decided or fact.arrival).ordinal
        refs = () if decided is None else (_reference(fact),)
        self.notes.append(
            Note(stream.side, finding, stamp(fact.arrival), ordinal, refs, fact.unit, fact.source, stream=stream)
        )


def mailbox_of(endpoint: str | None) -> Endpoint | None:
    """Return (address, port) of `tcp://address:port`, otherwise None."""
    if endpoint is None or not endpoint.startswith("tcp://"):
        return None
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    try:
        return str(ip_address(host.strip("[]").partition("%")[0])), int(port)
    except ValueError:
        return None


def _hello_of(sender: Sender) -> Stamp:
    return sender.hello or NEVER


def _reference(fact: ZreCommand) -> str:
    stream = fact.sender.stream
    return reference(stream, stream.side or 0, fact.source, fact.unit, "message")


def _place(beacon: ZreBeacon) -> str:
    return f"{beacon.stream.src_ip} port {beacon.fields.get('port')}"
