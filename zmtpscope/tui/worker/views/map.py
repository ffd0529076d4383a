"""The map: bound endpoints, their clients, and the traffic between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from zmtpscope.export.preview import quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.top.table import scaled
from zmtpscope.export.words import size
from zmtpscope.filter.writing import one_of
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND, to_text
from zmtpscope.store import Store
from zmtpscope.tui.requests import Table, Wanted
from zmtpscope.tui.worker.views.known_connections import KnownConnection, KnownConnections
from zmtpscope.tui.worker.views.subscription_changes import changes_of
from zmtpscope.tui.worker.views.tables import Column, Line, table_of
from zmtpscope.tui.worker.views.view import AS_IT_IS, CountingView, Step
from zmtpscope.words import counted

MAX_TOPICS = 4
"""Maximum topics named on a line, and kept of a connection."""

LONGEST_TOPIC = 24

LONGEST_FILTER = 4000
"""Characters of a filter that lists connections."""

BAR = 10
"""Width in characters of a bar that stands for all octets."""

ARROWS = {(True, False): "──→", (False, True): "←──", (True, True): "←─→", (False, False): "───"}
"""By (whether the bound side sends, whether the connecting side sends)."""


class Between(NamedTuple):
    """Totals of the connections between a listening peer and its clients. Each pair counts (from the listener, from the
    clients)."""

    connections: Sequence[KnownConnection]
    messages: tuple[int, int]
    octets: tuple[int, int]
    topics: Collection[bytes]


class MapView(CountingView):
    """A row per endpoint, the most octets first, with its clients below, and their connections below these."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._known = KnownConnections()
        self._topics: dict[int, list[bytes]] = {}
        """Some subscribed topics, by connection."""
        self._first_ns: int | None = None
        self._last_ns = 0

    # -- counting ------------------------------------------------------------------------------------------------------

    def feed(self, step: Step) -> None:
        for change in changes_of(step, self._known):
            topics = self._topics.setdefault(change.connection.number, [])
            if change.is_new and change.topic not in topics and len(topics) < MAX_TOPICS:
                topics.append(change.topic)
        for messages in step.messages:
            for _, first_ns, last_ns in self._known.count(messages):
                self._first_ns = first_ns if self._first_ns is None else min(self._first_ns, first_ns)
                self._last_ns = max(self._last_ns, last_ns)

    # -- showing -------------------------------------------------------------------------------------------------------

    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        by_endpoint = grouped(
            (known.address(known.listener), known) for known in sorted(self._known, key=attrgetter("number"))
        )
        total = sum(sum(known.octets) for known in self._known)
        lines = [self._endpoint(address, connections) for address, connections in by_endpoint.items()]
        lines.sort(key=lambda line: (-line.values["octets"], line.key))
        columns = self._columns(total)
        return table_of(columns, lines, wanted, [*self._text(len(by_endpoint), total)])

    def _columns(self, total: int) -> Sequence[Column]:
        start = self.store.first_time if self.store.first_time is not None else self._first_ns or 0
        duration = self._last_ns - start

        def rate(count: int) -> str:
            return scaled(count / duration * SECOND) if duration > 0 else ""

        def share(octets: int) -> str:
            part = octets / total if total else 0
            return f"{'█' * round(part * BAR):<{BAR}} {percent(part):>4}"

        return (
            Column("who", "WHO", is_name=True),
            Column("flow", "FLOW", is_name=True),
            Column("connections", "CONNS", str, is_number=True, rank=1),
            Column("messages_1", "MSGS →", scaled, is_number=True),
            Column("messages_0", "← MSGS", scaled, is_number=True),
            Column("rate", "MSG/S", rate, is_number=True, rank=3),
            Column("octets", "OCTETS", scaled, is_number=True, rank=3),
            Column("share", "SHARE OF OCTETS", share, rank=2),
            Column("topics", "SUBSCRIBED TO"),
        )

    def _text(self, endpoints: int, total: int) -> Iterator[str]:
        if not endpoints:
            yield "nobody speaks ZMTP"
            return
        yield f"{counted(endpoints, 'endpoint')}, {counted(len(self._known), 'connection')}"
        sent = Counter[str]()
        for known in self._known:
            for side in (0, 1):
                sent[known.name(side)] += known.octets[side]
        (name, octets), (_, next_most), *_ = [*sent.most_common(2), ("", 0)]
        if octets > next_most > 0:
            yield f"{name} sends the most: {percent(octets / total)} of {size(total)}"
        yield from self._known.left_out()

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _endpoint(self, address: str, connections: Sequence[KnownConnection]) -> Line:
        types = _types((known.socket_type(known.listener) for known in connections), "")
        others = _types((known.socket_type(1 - known.listener) for known in connections), "?", counts=True)
        names = {known.name(known.listener) for known in connections}
        name = names.pop() if len(names) == 1 else f"{types} {address}".strip()
        between = self._between(connections)
        return Line(
            f"endpoint {address}",
            _values(name, f"{types or '?'} {_arrow(between)} {others}", between),
            _filter_of(between),
            children=lambda: [
                self._client(address, client, some)
                for client, some in grouped((known.name(1 - known.listener), known) for known in connections).items()
            ],
            is_sorted=True,
        )

    def _client(self, address: str, client: str, connections: Sequence[KnownConnection]) -> Line:
        between, key = self._between(connections), f"client {client} of {address}"
        below = partial(self._single, key, connections) if len(connections) > 1 else None
        values = _values(client, _arrow(between), between)
        return Line(key, values, _filter_of(between), children=below, is_sorted=True)

    def _single(self, key: str, connections: Sequence[KnownConnection]) -> Sequence[Line]:
        lines = []
        for known in connections:
            between = self._between([known])
            values = _values(f"connection {known.number}", _arrow(between), between)
            lines.append(Line(f"{key} {known.number}", values, _filter_of(between)))
        return lines

    def _between(self, connections: Sequence[KnownConnection]) -> Between:
        messages, octets, topics = [0, 0], [0, 0], dict[bytes, None]()
        for known in connections:
            for place, side in enumerate((known.listener, 1 - known.listener)):
                messages[place] += known.messages[side]
                octets[place] += known.octets[side]
            topics |= dict.fromkeys(self._topics.get(known.number, ()))
        return Between(connections, (messages[0], messages[1]), (octets[0], octets[1]), topics)


def _values(name: str, flow: str, between: Between) -> dict[str, Any]:
    octets = sum(between.octets)
    from_bound, from_clients = between.messages
    return {
        "who": name,
        "flow": flow,
        "connections": len(between.connections),
        "messages_1": from_bound,
        "messages_0": from_clients,
        "rate": from_bound + from_clients,
        "octets": octets,
        "share": octets,
        "topics": _topics(between.topics),
    }


def percent(part: float) -> str:
    """Format a fraction as `61%`. Only exact values are `0%` and `100%`; near ones are `<1%` and `>99%`."""
    shown = f"{part:.0%}"
    if shown == "100%" and part < 1:
        return ">99%"
    return "<1%" if shown == "0%" and part else shown


def _arrow(between: Between) -> str:
    bound, connected = (count > 0 for count in between.messages)
    return ARROWS[bound, connected]


def _topics(topics: Collection[bytes]) -> str | None:
    shown = [quoted(to_text(topic), LONGEST_TOPIC) if topic else "(everything)" for topic in topics]
    more = "" if len(shown) <= MAX_TOPICS else " …"
    return ", ".join(shown[:MAX_TOPICS]) + more if shown else None


def _types(types: Iterable[str | None], unknown: str, *, counts: bool = False) -> str:
    """Return socket types as `SUB`, `DEALER, REQ`, or with their numbers (`counts`) as `3 SUB`."""
    found = Counter(safe_text(each)[:12] if each else unknown for each in types)
    words = [f"{count} {each}" if counts and count > 1 else each for each, count in sorted(found.items()) if each]
    return ", ".join(words)


def _filter_of(between: Between) -> str:
    """Return a filter for the connections of a row, or for their endpoint if they are too many."""
    filter = one_of("conn", (known.number for known in between.connections))
    if len(filter) <= LONGEST_FILTER:
        return filter
    known = between.connections[0]
    address, port = known.ends.addresses[known.listener]
    here = f"(src_ip == {address} and src_port == {port}) or (dst_ip == {address} and dst_port == {port})"
    names = {each.ends.addresses[1 - each.listener][0] for each in between.connections}
    return here if len(names) > 1 else f"({here}) and ip == {names.pop()}"
