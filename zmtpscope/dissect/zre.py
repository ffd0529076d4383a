"""ZRE across connections: who is who, the two connections of a pair of nodes, and what has to agree (zre.md 7 and 9).

Connections and beacons report facts; they are weighed when a block has been read, in the order of the packets that
settled them. What waits for something (an answer, the other connection) is judged by the first fact behind its time, or
at the end. What is remembered is bounded; the node met longest ago gives way.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any, NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.batch import DATAGRAMS
from zmtpscope.dissect.sink import Sink
from zmtpscope.dissect.tell import AT_THE_END, Teller
from zmtpscope.payloads.zre.conduct import MOST_GROUPS
from zmtpscope.records import SECOND
from zmtpscope.zmtp.reader import Finding

MOST_NODES = 4096
MOST_CONNECTIONS = 1024
"""Connections of a node that are remembered."""
MOST_WAITING = 16_384
"""So much may wait for something; what comes then is not judged."""

ONE_SIDED = 5 * SECOND
"""A node that has been connected to for so long should have connected back (zre.md 9)."""
SILENT = 30 * SECOND
"""How long a PING waits, and beacons may be missing (zre.md 7)."""
LONELY = 5 * SECOND
"""A node with beacons over so long a time should have been connected to."""

Mailbox = tuple[str, int]
NOWHERE: Mailbox = ("", 0)
NEVER = Arrival(-1, 0, 0)
Fields = dict[str, Any]


@dataclass(slots=True, eq=False)
class Link:
    """A connection on which a node sends to another.

    `uuid` is that of the node, `server` where it connected to; `since` the ordinal of the segment that told so, `whole`
    whether it was captured from its start.
    """

    teller: Teller
    side: int
    conn: int
    uuid: str | None
    server: Mailbox | None
    since: int
    whole: bool
    hello: Arrival | None = None
    over: bool = False
    lossy: bool = False
    paired: bool = False


class Said(NamedTuple):
    """A command on a link; `unit` is the offset of its message in `source`, `length` its octets."""

    arrival: Arrival
    link: Link
    fields: Fields
    source: int
    unit: int
    length: int


class Ended(NamedTuple):
    """A link is over."""

    arrival: Arrival
    link: Link


class Beaconed(NamedTuple):
    """A beacon; `teller` is that of its flow."""

    arrival: Arrival
    teller: Teller
    fields: Fields


ZreFact = Said | Ended | Beaconed


@dataclass(slots=True, eq=False)
class Node:
    """What is known of a node. `groups` is None where no HELLO of it was seen."""

    uuid: str
    name: str | None = None
    endpoint: str | None = None
    mailboxes: set[Mailbox] = field(default_factory=set)
    groups: set[str] | None = None
    changes: dict[tuple[str, str, int], Change] = field(default_factory=dict)
    """What it said in the last second of its groups, and how: command, group, status."""
    left: dict[str, int] = field(default_factory=dict)
    """When it left groups, or joined them: in the second around that a SHOUT may be on its way."""
    links: list[Link] = field(default_factory=list)
    links_to: dict[Mailbox, list[Link]] = field(default_factory=dict)
    """The same that are not over, by where they go."""
    first_beacon: Beaconed | None = None
    last_beacon: Beaconed | None = None
    ports: list[int] = field(default_factory=list)
    """The last ports that its beacons had, each different from the one before."""
    address_told: bool = False
    watched: bool = False
    """Somebody will look whether its beacons go on."""
    gone: bool = False
    """It has said farewell, or is believed to be dead."""

    @property
    def who(self) -> str:
        """The node, as people call it."""
        return self.name or self.uuid[:6]


@dataclass(slots=True, order=True)
class Deadline:
    """Something that should have happened at `time`; `judge` says what is to be said when it has come. `number` tells
    apart those of one time."""

    time: int
    number: int
    judge: Callable[[Arrival], None] = field(compare=False)


@dataclass(slots=True, eq=False)
class Change:
    """A JOIN or LEAVE of a node that its other links should see as well."""

    command: str
    group: str
    status: int
    missing: list[Link]


class Network:
    """All ZRE nodes of a run."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.nodes: OrderedDict[str, Node] = OrderedDict()
        self.owners: dict[Mailbox, str] = {}
        self.deadlines: list[Deadline] = []
        """What waits, as a heap."""
        self.pings: dict[Link, list[Said]] = {}
        """PINGs without PING-OK."""
        self.now = self.waited = 0
        self.beacon_versions: dict[int, str] = {}
        self.versions_told = False

    def weigh(self, facts: list[ZreFact]) -> None:
        """Judge what was reported, in the order of capture."""
        for fact in sorted(facts, key=_order):
            self.sink.decided_by = DATAGRAMS + fact.arrival.packet if isinstance(fact, Beaconed) else None
            self._pass_time(fact.arrival, fact.arrival.time)
            if isinstance(fact, Beaconed):
                self._beacon(fact)
            elif isinstance(fact, Ended):
                self._end(fact.link)
            else:
                self._said(fact)
        self.sink.decided_by = None

    def finish(self, end: Arrival) -> None:
        """The capture is over: what had its time by then is judged."""
        self._pass_time(end, end.time)
        for node in self.nodes.values():
            first, last = node.first_beacon, node.last_beacon
            if first is None or last is None or node.links or self.sink.mailboxes.intersection(node.mailboxes):
                continue
            if last.arrival.time - first.arrival.time >= LONELY:
                self._note_beacon("ZRE-BEACON-07", last, end, f"node {node.who}, {_place(last)}")

    # -- beacons -----------------------------------------------------------------------------------------------------

    def _beacon(self, beacon: Beaconed) -> None:
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
        address = beacon.teller.whole.src_ip
        self._own(node, (address, port))
        if node.ports[-1:] != [port]:
            node.ports = [*node.ports, port][-3:]
        if not node.address_told and before is not None:
            other = before.teller.whole.src_ip
            if other != address:
                node.address_told = True
                self._note_beacon("ZRE-BEACON-05", beacon, beacon.arrival, f"node {node.who} at {other} and {address}")
            elif len(node.ports) == 3 and node.ports[0] == node.ports[2]:
                node.address_told = True
                detail = f"node {node.who} at {address}, ports {node.ports[1]} and {node.ports[2]}"
                self._note_beacon("ZRE-BEACON-05", beacon, beacon.arrival, detail)
        if not node.watched:
            node.watched = True
            self._wait(beacon.arrival.time + SILENT, partial(self._silent, node))

    def _silent(self, node: Node, end: Arrival) -> None:
        """A node should have sent a beacon by now, if it was not heard since."""
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

    def _other_version(self, beacon: Beaconed, version: int) -> None:
        """Whether nodes of both versions of beacons are there."""
        if version not in (1, 3):
            return
        self.beacon_versions.setdefault(version, beacon.fields["uuid"])
        if len(self.beacon_versions) == 2 and not self.versions_told:
            self.versions_told = True
            one, other = self.beacon_versions[1][:6], self.beacon_versions[3][:6]
            self._note_beacon("ZRE-BEACON-08", beacon, beacon.arrival, f"{one} sends version 1, {other} version 3")

    def _note_beacon(self, id_: str, beacon: Beaconed, decided: Arrival, detail: str) -> None:
        beacon.teller.finding(0, Finding(id_, None, 0, None, detail), beacon.arrival, decided.ordinal)

    # -- commands ----------------------------------------------------------------------------------------------------

    def _said(self, said: Said) -> None:
        link, command = said.link, said.fields["command"]
        node = None if link.uuid is None else self._node(link.uuid)
        if command == "HELLO":
            self._hello(said, node)
        elif node is not None and command in ("JOIN", "LEAVE"):
            self._membership(said, node)
        elif command == "SHOUT":
            self._shout(said)
        elif command == "PING":
            self._ping(said)
        elif command == "PING-OK":
            self._ping_ok(link)

    def _hello(self, said: Said, node: Node | None) -> None:
        link = said.link
        link.hello = link.hello or said.arrival
        if node is None:
            return
        node.name = said.fields.get("name") or node.name
        node.endpoint = said.fields.get("endpoint")
        if (groups := said.fields.get("groups")) is not None:
            node.groups = set(groups) if len(groups) <= MOST_GROUPS else None
        mailbox = mailbox_of(node.endpoint)
        mailboxes = len(node.mailboxes)
        if mailbox is not None:
            port = node.last_beacon.fields.get("port") if node.last_beacon is not None else None
            if port and port != mailbox[1]:
                self._note("ZRE-17", said, f"HELLO says {mailbox[1]}, the beacon {port}")
            self._own(node, mailbox)
        is_news = len(node.mailboxes) > mailboxes
        if len(node.links) < MOST_CONNECTIONS and link not in node.links:
            is_news = True
            node.links.append(link)
            if not link.over:
                node.links_to.setdefault(link.server or NOWHERE, []).append(link)
        if link.whole:
            self._wait(said.arrival.time + ONE_SIDED, partial(self._one_sided, said, node))
        for other in [*self._receivers(link), *(self._unpaired(node) if is_news else ())]:
            self._pair(said, node, other)

    def _receivers(self, link: Link) -> list[Node]:
        owner = self.owners.get(link.server) if link.server is not None else None
        return [self.nodes[owner]] if owner is not None and owner in self.nodes else []

    def _unpaired(self, node: Node) -> list[Node]:
        """Nodes that this one has connected to, and that were no pair with it so far."""
        owners = [self.owners.get(link.server) for link in node.links if link.server and not (link.over or link.paired)]
        return [self.nodes[owner] for owner in dict.fromkeys(owners) if owner is not None and owner in self.nodes]

    def _end(self, link: Link) -> None:
        link.over = True
        self.pings.pop(link, None)
        node = None if link.uuid is None else self.nodes.get(link.uuid)
        if node is not None and link in (links := node.links_to.get(link.server or NOWHERE, [])):
            links.remove(link)

    def _pair(self, said: Said, one: Node, other: Node) -> None:
        """Tell that two nodes have found each other, once both have said HELLO."""
        ahead, back = self._link(one, other), self._link(other, one)
        if ahead is None or back is None or (ahead.paired and back.paired):
            return
        ahead.paired = back.paired = True
        first, later = sorted((ahead, back), key=lambda link: link.hello or said.arrival)
        node_0, node_1 = (one, other) if first is ahead else (other, one)
        beacons = [node.first_beacon.arrival.time for node in (one, other) if node.first_beacon is not None]
        own = {
            "uuid_0": node_0.uuid,
            "uuid_1": node_1.uuid,
            "name_0": node_0.name,
            "name_1": node_1.name,
            "endpoint_0": node_0.endpoint,
            "endpoint_1": node_1.endpoint,
            "conn_0": first.conn,
            "conn_1": later.conn,
            "conn_id_0": first.teller.whole.conn_id,
            "conn_id_1": later.teller.whole.conn_id,
            "discovery_ns": said.arrival.time - min(beacons) if beacons else None,
        }
        said.link.teller.pair(said.arrival, said.unit, own)

    def _link(self, one: Node, other: Node) -> Link | None:
        """The connection on which `one` speaks to `other`, if that is there; the newest."""
        few, many = sorted((one.links_to, other.mailboxes), key=len)
        links = [link for mailbox in few if mailbox in many for link in one.links_to.get(mailbox, ())[-1:]]
        return max(links, key=lambda link: link.hello or NEVER, default=None)

    def _one_sided(self, said: Said, node: Node, end: Arrival) -> None:
        link = said.link
        if link.over or link.paired:
            return
        where = "" if link.server is None else f" to {link.server[0]}:{link.server[1]}"
        self._note("ZRE-12", said, f"node {node.who} connected{where}, nobody connected back", end)

    def _membership(self, said: Said, node: Node) -> None:
        fields, link = said.fields, said.link
        group, status, command = fields.get("group"), fields.get("status"), fields["command"]
        if group is None or status is None:
            return
        if node.groups is not None:
            (node.groups.add if command == "JOIN" else node.groups.discard)(group)
            if len(node.groups) > MOST_GROUPS:
                node.groups = None
            node.left.pop(group, None)
            node.left[group] = said.arrival.time
            if len(node.left) > MOST_GROUPS:
                del node.left[next(iter(node.left))]
        if (known := node.changes.get((command, group, status))) is not None:
            if link in known.missing:
                known.missing.remove(link)
            return
        missing = [
            other
            for other in node.links
            if other is not link and other.whole and not (other.over or other.lossy) and other.hello is not None
        ]
        change = Change(command, group, status, missing)
        if self._wait(said.arrival.time + SECOND, partial(self._unseen, said, node, change)):
            node.changes[command, group, status] = change

    def _unseen(self, said: Said, node: Node, change: Change, end: Arrival) -> None:
        """A second after a JOIN or LEAVE: on which links it was not said."""
        del node.changes[change.command, change.group, change.status]
        for link in change.missing:
            if not (link.over or link.lossy):
                detail = f'{change.command} "{change.group}" of node {node.who}, said on connection {said.link.conn}'
                finding = Finding("ZRE-21", None, 0, None, detail)
                link.teller.finding(link.side, finding, said.arrival, end.ordinal, (self._reference(said),))

    def _shout(self, said: Said) -> None:
        group = said.fields.get("group")
        for node in self._receivers(said.link):
            changed = node.left.get(str(group))
            recent = changed is not None and said.arrival.time - changed <= SECOND
            if node.groups is not None and group not in node.groups and not recent:
                self._note("ZRE-19", said, f'node {node.who} is not in "{group}"')

    def _ping(self, said: Said) -> None:
        if said.link not in self.pings and len(self.pings) == MOST_CONNECTIONS:
            return
        if self._wait(said.arrival.time + SILENT, partial(self._unanswered, said)):
            self.pings.setdefault(said.link, []).append(said)

    def _ping_ok(self, link: Link) -> None:
        """The answer comes on the other connection of the pair: whatever was asked of this node is answered."""
        if link.uuid is None:
            self.pings.clear()
            return
        answering = self.nodes.get(link.uuid)
        for pinging in list(self.pings):
            if answering is None or pinging.server in answering.mailboxes or pinging.server not in self.owners:
                del self.pings[pinging]

    def _unanswered(self, said: Said, end: Arrival) -> None:
        if said in (waiting := self.pings.get(said.link, [])) and not said.link.over:
            waiting.remove(said)
            if not waiting:
                del self.pings[said.link]
            self._note("ZRE-11", said, f"sequence {said.fields['sequence']}", end)

    # -- what they share ---------------------------------------------------------------------------------------------

    def _node(self, uuid: str) -> Node:
        node = self.nodes.get(uuid)
        if node is None:
            node = self.nodes[uuid] = Node(uuid)
            if len(self.nodes) > MOST_NODES:
                _, old = self.nodes.popitem(last=False)
                for mailbox in old.mailboxes:
                    self.owners.pop(mailbox, None)
        self.nodes.move_to_end(uuid)
        return node

    def _own(self, node: Node, mailbox: Mailbox) -> None:
        """The node listens there."""
        if len(node.mailboxes) < MOST_CONNECTIONS:
            node.mailboxes.add(mailbox)
            self.owners[mailbox] = node.uuid

    def _wait(self, time: int, judge: Callable[[Arrival], None]) -> bool:
        """Let `judge` look at `time`; False where so much waits already that it is not judged."""
        if len(self.deadlines) == MOST_WAITING:
            return False
        self.waited += 1
        heapq.heappush(self.deadlines, Deadline(time, self.waited, judge))
        return True

    def _pass_time(self, arrival: Arrival, time: int) -> None:
        """It is `time`, as the segment `arrival` tells: judge what had its time before."""
        self.now = max(self.now, time)
        while self.deadlines and self.deadlines[0].time < self.now:
            heapq.heappop(self.deadlines).judge(arrival)

    def _note(self, id_: str, said: Said, detail: str, decided: Arrival | None = None) -> None:
        finding = Finding(id_, said.unit, said.length, None, detail)
        ordinal = (decided or said.arrival).ordinal
        refs = () if decided is None else (self._reference(said),)
        said.link.teller.finding(said.link.side, finding, said.arrival, ordinal, refs, said.unit, said.source)

    @staticmethod
    def _reference(said: Said) -> str:
        return said.link.teller.reference(said.link.side, said.source, said.unit, "message")


def mailbox_of(endpoint: str | None) -> Mailbox | None:
    """Address and port of `tcp://address:port`; None where it is something else."""
    if endpoint is None or not endpoint.startswith("tcp://"):
        return None
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    try:
        return str(ip_address(host.strip("[]").partition("%")[0])), int(port)
    except ValueError:
        return None


def _order(fact: ZreFact) -> tuple[int, int, int]:
    if isinstance(fact, Beaconed):
        return fact.arrival.ordinal, DATAGRAMS + fact.arrival.packet, 0
    return fact.arrival.ordinal, fact.link.conn, fact.unit if isinstance(fact, Said) else AT_THE_END


def _place(beacon: Beaconed) -> str:
    return f"{beacon.teller.whole.src_ip} port {beacon.fields.get('port')}"
