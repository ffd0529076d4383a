"""Findings about connections without ZMTP that concern ZeroMQ: proxy refusals, WebSockets without ZWS, and TLS.

SOCKS and HTTP CONNECT carry any protocol. A refusal is reported only if the proxy passes on ZMTP of the same client, or
if the client retries as fast as ZeroMQ does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set
from dataclasses import dataclass

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.facts import Endpoint, Relayed, WithoutZmtp
from zmtpscope.dissect.records.notes import Note
from zmtpscope.findings.capturing import ANSWERS
from zmtpscope.records import SECOND
from zmtpscope.words import host_port
from zmtpscope.zmtp.reader import Finding

MAX_REMEMBERED = 4096
"""Entries of each kind to remember. When full, the one unused for longest is forgotten."""
MIN_ASKED = 3
FASTEST = SECOND
"""A client whose requests are at most this far apart on average retries as a ZeroMQ client does."""

Key = tuple[str, str, int, str]
"""Client address, proxy address and port, target."""


@dataclass(slots=True)
class Asked:
    """Refusals that one client received from one proxy for one target."""

    first: Relayed
    last: Relayed
    count: int = 1

    @property
    def is_fast(self) -> bool:
        """Whether the requests follow each other as fast as ZeroMQ clients retry."""
        span = self.last.connection.start.time - self.first.connection.start.time
        return self.count >= MIN_ASKED and 0 <= span <= FASTEST * (self.count - 1)


class Refusals:
    """Collects the proxy refusals of a run. Call `evaluate` for each finished connection, then `finish`."""

    def __init__(self) -> None:
        self.refused: OrderedDict[Key, Asked] = OrderedDict()
        self.granted: OrderedDict[tuple[str, str, int], Relayed] = OrderedDict()

    def evaluate(self, relayed: Relayed) -> None:
        """Add a connection through a proxy: a refusal, or ZMTP."""
        client, proxy, port = _ends(relayed)
        if relayed.refusal is None:
            self.granted[client, proxy, port] = relayed
            if len(self.granted) > MAX_REMEMBERED:
                self.granted.popitem(last=False)
            return
        key = client, proxy, port, relayed.target
        asked = self.refused.get(key)
        if asked is None:
            self.refused[key] = Asked(relayed, relayed)
        else:
            asked.last = max(asked.last, relayed, key=_began)
            asked.first = min(asked.first, relayed, key=_began)
            asked.count += 1
        self.refused.move_to_end(key)
        if len(self.refused) > MAX_REMEMBERED:
            self.refused.popitem(last=False)

    def finish(self, end: Arrival) -> list[Note]:
        """Return a finding for each client, proxy and target that concerns ZMTP. `end` is the end of the run."""
        return [
            _note(asked, self.granted.get(key[:3]), end)
            for key, asked in self.refused.items()
            if key[:3] in self.granted or asked.is_fast
        ]


class OthersAtEndpoints:
    """Collects connections without ZMTP to `endpoints`, which speak ZMTP on other connections.

    Call `evaluate` for each connection, then `finish`.
    """

    def __init__(self, endpoints: Set[Endpoint]) -> None:
        self.opened: OrderedDict[tuple[str, str, int, str], tuple[WithoutZmtp, WithoutZmtp, int]] = OrderedDict()
        """First and last connection and their number, by client address, endpoint and finding."""
        self.endpoints = endpoints

    def evaluate(self, opened: WithoutZmtp) -> None:
        key = (*_ends(opened), opened.finding)
        first, last, count = self.opened.get(key, (opened, opened, 0))
        self.opened[key] = min(first, opened, key=_began), max(last, opened, key=_began), count + 1
        if len(self.opened) > MAX_REMEMBERED:
            self.opened.popitem(last=False)

    def finish(self, end: Arrival) -> list[Note]:
        """Return a finding for each client, endpoint and kind. `end` is the end of the run."""
        notes = []
        for (client, host, port, id_), (first, last, count) in self.opened.items():
            if (host, port) not in self.endpoints:
                continue
            seconds = max(0, last.connection.start.time - first.connection.start.time) / SECOND
            times = "" if count == 1 else f", {count} times in {seconds:.1f} s"
            closes = "" if first.closed_by in (None, first.client) else ", and the other side closes it"
            text = f"{client} opens a WebSocket without ZWS2.0 to {host}:{port} (answer {first.status}){closes}{times}"
            if id_ == "ZMTP-CONN-23":
                answer = f"{ANSWERS}{first.status}" if first.status else ""
                text = f"{client} speaks TLS to {host}:{port}{answer}{times}"
            start, until = first.connection.start, last.connection.start
            finding = Finding(id_, None, 0, None, text)
            notes.append(Note(None, finding, start, end.ordinal, events=count, last=until, stream=_stream(first)))
        return notes


def _ends(relayed: Relayed | WithoutZmtp) -> tuple[str, str, int]:
    stream = _stream(relayed)
    return stream.src_ip, stream.dst_ip, stream.dst_port


def _stream(relayed: Relayed | WithoutZmtp) -> Stream:
    stream = relayed.connection.stream
    if relayed.client == 0:
        return stream._replace(side=0)
    ends = stream.dst_ip, stream.dst_port, stream.src_ip, stream.src_port
    return Stream(stream.conn, stream.conn_id, 1, *ends)


def _began(relayed: Relayed | WithoutZmtp) -> tuple[int, int]:
    return relayed.connection.start


def _note(asked: Asked, granted: Relayed | None, end: Arrival) -> Note:
    first, last, stream = asked.first, asked.last, _stream(asked.first)
    is_over = granted is not None and granted.target == first.target and _began(granted) > _began(last)
    seconds = max(0, last.connection.start.time - first.connection.start.time) / SECOND
    times = "once" if asked.count == 1 else f"{asked.count} times in {seconds:.1f} s"
    proxy = f"{first.protocol} proxy {host_port(stream.dst_ip, stream.dst_port)}"
    text = f"the {proxy} did not connect {stream.src_ip} to {first.target}, {times}: {first.refusal}"
    if is_over and granted is not None:
        text += (
            f"; it connected {max(0, granted.connection.start.time - last.connection.start.time) / SECOND:.1f} s later"
        )
    elif granted is not None and granted.target == first.target and _began(granted) > _began(first):
        text += "; an attempt between these succeeded"
    finding = Finding("ZMTP-CONN-19", None, 0, "note" if is_over else None, text)
    start = first.connection.start
    return Note(None, finding, start, end.ordinal, events=asked.count, last=last.connection.start, stream=stream)
