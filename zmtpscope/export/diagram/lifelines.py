"""Assign connections to lifelines: one lifeline for each peer, as far as the capture identifies peers.

A listener is identified by address and port. A client is identified by address, socket type and identity over all its
connections, unless two of them to one peer are open at once. Clients without an identity are one client only if their
connections have one type, go to one peer, and follow each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from zmtpscope.dissect.identity import listening_side
from zmtpscope.export.diagram.events import End, Ends, Values
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.side_names import LONGEST_SHORT_IDENTITY, LONGEST_TYPE, name_and_type, named
from zmtpscope.words import host_port

MAX_SINGLE = 12
"""Clients of one type with the same peers that have separate lifelines; more share one."""

MAX_LIFELINES = 24

MAX_COMPARED = 100
"""Lifelines of one kind that are searched for a reconnecting client."""

MAX_ADDRESSES = 4

FOR_EVER = 1 << 63


@dataclass(eq=False)
class Lifeline:
    """One peer in the diagram.

    `ends` are its ends of connections, `peers` the number of its peers. `name` is short and unique in the diagram;
    `about` identifies the peer.
    """

    ends: list[End]
    socket_type: str | None = None
    identity: str | None = None
    is_bound: bool = False
    peers: int = 1
    """Number of peers that share the lifeline."""
    name: str = ""
    connected_until: dict[End, int] = field(default_factory=dict)
    """End of this peer's last connection to each listener."""

    @property
    def kind(self) -> str:
        """The identity; without one the socket type; without both ""."""
        if self.identity and self.peers == 1:
            return named(self.identity, LONGEST_SHORT_IDENTITY)
        return safe_text(self.socket_type)[:LONGEST_TYPE] if self.socket_type else ""

    @property
    def about(self) -> list[str]:
        """Details that the name lacks: socket type if there is an identity, addresses, and whether the peer listens."""
        if self.peers > 1:
            hosts = sorted({host for host, _ in self.ends})
            shown = ", ".join(hosts[:MAX_ADDRESSES]) + (", ..." if len(hosts) > MAX_ADDRESSES else "")
            return [f"on {shown}"]
        who = " ".join(reversed(name_and_type(self.socket_type, self.identity))) if self.identity else ""
        (host, port), *others = self.ends
        if not port:
            return []
        more = [f":{each}" for each_host, each in others if each_host == host][: MAX_ADDRESSES - 1]
        more += ["..."] * (len(others) > len(more))
        where = ", ".join([host_port(host, port), *more])
        return [*filter(None, [who]), where + (" bound" if self.is_bound else "")]


class Lifelines:
    """Assigns connections, failed attempts and datagrams to lifelines."""

    def __init__(self, connections: Iterable[Values], others: Iterable[Ends]) -> None:
        self._of_end: dict[End, Lifeline] = {}
        self._of_side: dict[tuple[int, int], Lifeline] = {}
        self._connecting: dict[tuple[str, str | None, str | None], list[Lifeline]] = {}
        for values in sorted(connections, key=lambda values: values["start_ns"]):
            self._add_connection(values)
        for ends in others:
            if ends.conn is None or (ends.conn, 0) not in self._of_side:
                self._add_ends(ends)
        every = list(dict.fromkeys(self._of_side.values()))
        if len(every) > MAX_SINGLE:
            self._join(every)

    def of(self, ends: Ends, side: int) -> Lifeline:
        if ends.conn is not None:
            return self._of_side[ends.conn, side]
        return self._of_end[ends.other if side else ends.one]

    def _add_connection(self, values: Values) -> None:
        ends = [(values["ip_0"], values["port_0"]), (values["ip_1"], values["port_1"])]
        seen = values["opened_by"]
        listening = listening_side((ends[0][1], ends[1][1]), None if seen is None else 1 - seen)
        for side in (listening, 1 - listening):
            is_bound = side == listening and seen is not None
            type_, identity = values[f"socket_type_{side}"], values[f"identity_{side}"]
            if side == listening:
                line = self._bound(ends[side])
            else:
                line = self._of_one_that_connects(values, ends[side], ends[1 - side], type_, identity)
            line.is_bound |= is_bound
            line.socket_type = line.socket_type or type_
            line.identity = line.identity or identity
            self._of_side[values["conn"], side] = line

    def _bound(self, end: End) -> Lifeline:
        return self._of_end.setdefault(end, Lifeline([end]))

    def _of_one_that_connects(
        self, values: Values, end: End, other: End, type_: str | None, identity: str | None
    ) -> Lifeline:
        if end in self._of_end:
            return self._of_end[end]
        known = self._connecting.setdefault((end[0], type_, identity), [])
        for line in known[-MAX_COMPARED:]:
            is_free = line.connected_until.get(other, 0 if identity else values["start_ns"] + 1) <= values["start_ns"]
            if is_free:
                break
        else:
            line = Lifeline([])
            known.append(line)
        line.ends.append(end)
        line.connected_until[other] = FOR_EVER if values["close"] == "open" else values["end_ns"]
        return line

    def _add_ends(self, ends: Ends) -> None:
        other = self._bound(ends.other)
        if ends.conn is None:
            self._bound(ends.one)
            return
        tried = [line for lines in self._connecting.values() for line in lines if self._may_be(line, ends)]
        one = tried[0] if len(tried) == 1 else self._of_end.setdefault((ends.one[0], 0), Lifeline([(ends.one[0], 0)]))
        self._of_side[ends.conn, 0], self._of_side[ends.conn, 1] = one, other

    def _may_be(self, line: Lifeline, ends: Ends) -> bool:
        return line.ends[0][0] == ends.one[0] and ends.other in line.connected_until

    def _join(self, lines: Sequence[Lifeline]) -> None:
        """Merge clients of one socket type that have the same peers."""
        joined: dict[tuple[object, ...], Lifeline] = {}
        single = set(self._of_end.values())
        new: dict[Lifeline, Lifeline] = {}
        for line in lines:
            if line in single:
                continue
            key = line.socket_type, frozenset(line.connected_until)
            if key not in joined:
                joined[key] = Lifeline([], line.socket_type, peers=0)
            joined[key].ends += line.ends
            joined[key].peers += 1
            new[line] = joined[key]
            if joined[key].peers == 1:
                joined[key].identity = line.identity
        self._of_side = {place: new.get(line, line) for place, line in self._of_side.items()}


def name_all(lines: Sequence[Lifeline]) -> None:
    """Give each lifeline a short unique name: `PUB:5556`, `"worker-1"`, `SUB`, or `SUB 2` if there are several."""
    names = [_short(line) for line in lines]
    counts = Counter(names)
    for place, line in enumerate(lines):
        if counts[names[place]] > 1 and not line.kind and line.ends[0][1]:
            names[place] = host_port(*line.ends[0])
    counts = Counter(names)
    numbers: Counter[str] = Counter()
    for line, name in zip(lines, names, strict=True):
        numbers[name] += 1
        line.name = name if counts[name] == 1 else f"{name} {numbers[name]}"


def _short(line: Lifeline) -> str:
    if line.peers > 1:
        return f"{line.peers} {line.kind or 'peers'}"
    host, port = line.ends[0]
    if line.is_bound:
        return f"{line.kind}:{port}"
    return line.kind or (f":{port}" if port else host)
