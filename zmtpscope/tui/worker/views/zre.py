"""The view of ZRE: nodes, groups and discoveries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.top.table import scaled
from zmtpscope.filter.writing import quoted_text
from zmtpscope.records import to_text
from zmtpscope.store import Store
from zmtpscope.tui.requests import Table, Wanted
from zmtpscope.tui.worker.views.tables import Column, Line, shown_times, table_of
from zmtpscope.tui.worker.views.view import AS_IT_IS, CountingView, Step
from zmtpscope.words import counted

MESSAGES, BEACONS = "zre", "zre-beacon"
"""Names of the protocols in payload records."""

MAX_NODES = MAX_GROUPS = 1024
MAX_MEMBERS = 64
"""Maximum groups and pairs of a node."""

SHOWN = 6
"""Maximum names in a cell."""


@dataclass(slots=True)
class Node:
    """A ZRE node. `groups` are the groups of which it is a member now."""

    uuid: str
    name: str | None = None
    endpoint: str | None = None
    groups: dict[str, None] = field(default_factory=dict)
    messages: int = 0
    shouts: int = 0
    whispers: int = 0
    beacons: int = 0
    pairs: list[int] = field(default_factory=list)
    """Record numbers of its discoveries of other nodes."""
    last_ns: int = 0


@dataclass(slots=True)
class Group:
    name: str
    members: dict[str, None] = field(default_factory=dict)
    messages: int = 0
    shouts: int = 0
    last_ns: int = 0


Kind = TypeVar("Kind", Node, Group)


class ZreView(CountingView):
    """A row per ZRE node, by name, with rows for beacons and discovered nodes below it; then a row per group."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._nodes: dict[str, Node] = {}
        self._groups: dict[str, Group] = {}
        self._left_out: set[str] = set()

    # -- counting ------------------------------------------------------------------------------------------------------

    def feed(self, step: Step) -> None:
        for messages in step.messages:
            numbers = messages.of_protocol(MESSAGES)
            if len(numbers):
                columns = MessageColumns.of(self.store.batch(numbers), self.store.options)
                payloads = columns.payload()
                for row, time in enumerate(columns.time_ends.tolist()):
                    fields = (payloads[row] or {}).get("fields")
                    if isinstance(fields, dict):
                        self._message(fields, time)
        for number, record in step.records("datagram", "zre_pair"):
            values = record.values
            if record.type == "zre_pair":
                self._pair(number, values)
            elif values["kind"] == "beacon":
                node = self._node((values["payload"]["fields"] or {}).get("uuid"), values["ts_ns"])
                if node is not None:
                    node.beacons += 1

    def _message(self, fields: dict[str, Any], time: int) -> None:
        node, command, name = self._node(fields.get("node"), time), fields.get("command"), fields.get("group")
        group = self._of(self._groups, name, Group, MAX_GROUPS, time)
        if group is not None:
            group.messages += 1
            group.shouts += command == "SHOUT"
        if node is None:
            return
        node.messages += 1
        node.name = fields.get("name") or node.name
        node.endpoint = fields.get("endpoint") or node.endpoint
        node.shouts += command == "SHOUT"
        node.whispers += command == "WHISPER"
        if command == "HELLO":
            for each in (fields.get("groups") or ())[:MAX_MEMBERS]:
                self._join(node, self._of(self._groups, each, Group, MAX_GROUPS, time))
        elif command == "JOIN":
            self._join(node, group)
        elif command == "LEAVE" and group is not None:
            node.groups.pop(group.name, None)
            group.members.pop(node.uuid, None)

    @staticmethod
    def _join(node: Node, group: Group | None) -> None:
        if group is not None and len(node.groups) < MAX_MEMBERS:
            node.groups[group.name] = None
            if len(group.members) < MAX_NODES:
                group.members[node.uuid] = None

    def _pair(self, number: int, values: dict[str, Any]) -> None:
        for which in (0, 1):
            node = self._node(values[f"uuid_{which}"], values["ts_ns"])
            if node is not None:
                node.name = node.name or values[f"name_{which}"]
                node.endpoint = node.endpoint or values[f"endpoint_{which}"]
                if len(node.pairs) < MAX_MEMBERS:
                    node.pairs.append(number)

    def _node(self, uuid: Any, time: int) -> Node | None:
        return self._of(self._nodes, uuid, Node, MAX_NODES, time)

    def _of(self, kinds: dict[str, Kind], name: Any, new: Callable[[str], Kind], most: int, time: int) -> Kind | None:
        """Return the node or group with this name, created by `new` if necessary; None without a name, or when there
        are `most`."""
        if not isinstance(name, str):
            return None
        if name not in kinds:
            if len(kinds) == most:
                self._left_out.add(name)
                return None
            kinds[name] = new(name)
        kinds[name].last_ns = max(kinds[name].last_ns, time)
        return kinds[name]

    # -- showing -------------------------------------------------------------------------------------------------------

    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        columns = (
            Column("what", "NODE, OR GROUP", is_name=True),
            Column("uuid", "UUID", rank=3),
            Column("endpoint", "ENDPOINT", is_name=True),
            Column("with", "GROUPS, OR MEMBERS"),
            Column("messages", "MSGS", scaled, is_number=True),
            Column("shouts", "SHOUTS", scaled, is_number=True, rank=2),
            Column("whispers", "WHISPERS", scaled, is_number=True, rank=2),
            Column("last", "LAST", shown_times(self.store, wanted.time), is_number=True, rank=1),
        )
        nodes, groups = self._nodes, self._groups
        lines = [
            _heading("nodes", [self._line_of_node(nodes[uuid]) for uuid in sorted(nodes, key=self._name)]),
            _heading("groups", [self._line_of_group(groups[name]) for name in sorted(groups)]),
        ]
        text = [f"{counted(len(nodes), 'ZRE node')}, {counted(len(groups), 'group')}"]
        if self._left_out:
            text.append(f"{len(self._left_out)} more nodes and groups than the {MAX_NODES} that are told apart")
        if not nodes and not groups:
            return table_of(columns, [], wanted, ["no ZRE nodes"])
        return table_of(columns, lines, wanted, text)

    def _name(self, uuid: str) -> str:
        node = self._nodes.get(uuid)
        return node.name if node is not None and node.name else uuid[:6]

    def _line_of_node(self, node: Node) -> Line:
        values = {
            "what": self._name(node.uuid),
            "uuid": node.uuid[:6],
            "endpoint": node.endpoint,
            "with": _some(list(node.groups)),
            "messages": node.messages,
            "shouts": node.shouts,
            "whispers": node.whispers,
            "last": node.last_ns,
        }
        filter = f"payload.protocol == {MESSAGES} and payload.fields.node == {_text(node.uuid)}"
        return Line(f"node {node.uuid}", values, filter, children=lambda: [*self._below(node)])

    def _below(self, node: Node) -> Iterator[Line]:
        filter = f"payload.protocol == {BEACONS} and payload.fields.uuid == {_text(node.uuid)}"
        yield Line(f"beacons {node.uuid}", {"what": counted(node.beacons, "beacon")}, filter)
        for number, record in self.store.others(np.array(node.pairs, np.int64), ("zre_pair",)):
            sentence = DESCRIBE[record.type](record.values)
            yield Line(f"pair {node.uuid} {number}", {"what": sentence}, record=number)

    def _line_of_group(self, group: Group) -> Line:
        members = [self._name(uuid) for uuid in group.members]
        values = {
            "what": group.name,
            "with": _some(members),
            "messages": group.messages,
            "shouts": group.shouts,
            "last": group.last_ns,
        }
        filter = f"payload.protocol == {MESSAGES} and payload.fields.group == {_text(group.name)}"
        return Line(f"group {group.name}", values, filter)


def _heading(what: str, lines: Sequence[Line]) -> Line:
    return Line(what, {"what": what}, children=lambda: lines, is_open=True, is_sorted=True)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _text(value: str) -> str:
    """Quote a text of a payload, for use in a filter."""
    return quoted_text(to_text(value.encode("utf-8", "surrogatepass")))
