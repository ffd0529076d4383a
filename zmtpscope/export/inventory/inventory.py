"""Collect ZMTP endpoints and refused clients from connection records and findings, and format them as JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from zmtpscope.dissect import Record
from zmtpscope.dissect.identity import listening_side
from zmtpscope.dissect.records.sink import count_word
from zmtpscope.findings.capturing import ATTEMPTS

MAX_ENDPOINTS = 16_384
"""Endpoints to list; connections to further ones are only counted."""

MAX_CLIENTS, MAX_IDENTITIES = 1024, 64

MAX_REFUSALS = 4096
"""Different refusals, and open connections whose findings are kept."""

LONGEST_TEXT = 300

NOTE, WORSE = "note", ("note", "warn", "error")
"""Findings that can explain a failed handshake, the worst last."""


class Address(NamedTuple):
    """The address of a listener. `transport` is tcp, ws or udp."""

    ip: str
    port: int
    transport: str


@dataclass
class Endpoint:
    """All connections to one address; for `udp`, all datagrams to it.

    Counters are by value; `client_types`, `client_identities` and `clients` describe the other sides.
    """

    address: Address
    connections: int = 0
    versions: Counter[str] = field(default_factory=Counter)
    mechanisms: Counter[str] = field(default_factory=Counter)
    socket_types: Counter[str] = field(default_factory=Counter)
    """Number of connections by socket type of the listener."""
    client_types: Counter[str] = field(default_factory=Counter)
    handshakes: Counter[str] = field(default_factory=Counter)
    confidences: Counter[str] = field(default_factory=Counter)
    identities: set[str] = field(default_factory=set)
    client_identities: set[str] = field(default_factory=set)
    more_identities: int = 0
    """Number of connections whose identities exceed the limit."""
    clients: set[str] = field(default_factory=set)
    """Addresses of clients, refused ones too."""
    messages: int = 0
    start_ns: int | None = None
    end_ns: int = 0

    def seen(self, start: int, end: int) -> None:
        self.start_ns = start if self.start_ns is None else min(self.start_ns, start)
        self.end_ns = max(self.end_ns, end)


class Refusal(NamedTuple):
    """Key of refused clients.

    `client` is the address of the client, `ip` and `port` the endpoint. `outcome` is "handshake failed", "handshake
    incomplete" or one of `ATTEMPTS`; `finding` is the id of the reason.
    """

    ip: str
    port: int
    client: str
    outcome: str
    finding: str | None


@dataclass
class Refused:
    """The number of refusals, and the sentence and time (ns) of the first."""

    count: int = 0
    text: str | None = None
    start_ns: int | None = None


class Inventory:
    """Collects endpoints and refused clients from the records that `feed` receives in order."""

    def __init__(self) -> None:
        self.endpoints: dict[Address, Endpoint] = {}
        self.refusals: dict[Refusal, Refused] = {}
        self.left_out = 0
        """Number of connections to further endpoints, and of refusals, beyond the limits."""
        self._reasons: dict[int, tuple[int, str, str]] = {}
        """Worst finding of each open connection: index in `WORSE`, id and sentence."""

    def feed(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.type == "connection":
                self._connection(record.values)
            elif record.type == "finding":
                self._finding(record.values)
            elif record.type == "datagram":
                self._datagram(record.values)

    def _endpoint(self, address: Address) -> Endpoint | None:
        endpoint = self.endpoints.get(address)
        if endpoint is None:
            if len(self.endpoints) == MAX_ENDPOINTS:
                self.left_out += 1
                return None
            endpoint = self.endpoints[address] = Endpoint(address)
        return endpoint

    def _connection(self, values: dict[str, Any]) -> None:
        reason = self._reasons.pop(values["conn"], None)
        opened_by = values["opened_by"]
        server = listening_side((values["port_0"], values["port_1"]), None if opened_by is None else 1 - opened_by)
        client = 1 - server
        ip, port = values[f"ip_{server}"], values[f"port_{server}"]
        endpoint = self._endpoint(Address(ip, port, values["transport"] or "tcp"))
        if endpoint is None:
            return
        endpoint.connections += 1
        for counter, word in (
            (endpoint.versions, values["version"]),
            (endpoint.mechanisms, values["mechanism"]),
            (endpoint.socket_types, values[f"socket_type_{server}"]),
            (endpoint.client_types, values[f"socket_type_{client}"]),
            (endpoint.handshakes, values["handshake"]),
            (endpoint.confidences, values["confidence"]),
        ):
            if word:
                count_word(counter, word)
        for identities, identity in (
            (endpoint.identities, values[f"identity_{server}"]),
            (endpoint.client_identities, values[f"identity_{client}"]),
        ):
            if identity:
                self._identity(endpoint, identities, identity[:LONGEST_TEXT])
        if len(endpoint.clients) < MAX_CLIENTS:
            endpoint.clients.add(values[f"ip_{client}"])
        endpoint.messages += values["messages_0"] + values["messages_1"]
        endpoint.seen(values["start_ns"], values["end_ns"])
        rank, finding, text = reason or (-1, None, None)
        handshake = values["handshake"]
        if handshake == "failed" or (handshake == "incomplete" and rank > WORSE.index(NOTE)):
            refusal = Refusal(ip, port, values[f"ip_{client}"], f"handshake {handshake}", finding)
            self._refused(refusal, 1, text, values["start_ns"])

    @staticmethod
    def _identity(endpoint: Endpoint, identities: set[str], identity: str) -> None:
        if identity in identities or len(identities) < MAX_IDENTITIES:
            identities.add(identity)
        else:
            endpoint.more_identities += 1

    def _finding(self, values: dict[str, Any]) -> None:
        outcome = ATTEMPTS.get(values["id"])
        if outcome is not None:
            if values["dst_ip"] is not None:
                refusal = Refusal(values["dst_ip"], values["dst_port"], values["src_ip"], outcome, values["id"])
                self._refused(refusal, values["count"] or 1, values["text"], values["ts_ns"])
        elif values["conn"] is not None and values["severity"] in WORSE:
            rank, known = WORSE.index(values["severity"]), self._reasons.get(values["conn"])
            is_told_better = known is not None and (rank > known[0] or rank == WORSE.index(NOTE))
            if is_told_better or (known is None and len(self._reasons) < MAX_REFUSALS):
                self._reasons[values["conn"]] = rank, values["id"], values["text"][:LONGEST_TEXT]

    def _refused(self, refusal: Refusal, count: int, text: str | None, start: int) -> None:
        if refusal not in self.refusals and len(self.refusals) == MAX_REFUSALS:
            self.left_out += 1
            return
        refused = self.refusals.setdefault(refusal, Refused())
        refused.count += count
        refused.text = refused.text or text
        refused.start_ns = start if refused.start_ns is None else min(refused.start_ns, start)

    def _datagram(self, values: dict[str, Any]) -> None:
        endpoint = self._endpoint(Address(values["dst_ip"], values["dst_port"], "udp"))
        if endpoint is None:
            return
        endpoint.connections += 1
        count_word(
            endpoint.client_types, {"beacon": "ZRE beacon", "radio": "RADIO"}.get(values["kind"], values["kind"])
        )
        count_word(endpoint.confidences, values["confidence"])
        if len(endpoint.clients) < MAX_CLIENTS:
            endpoint.clients.add(values["src_ip"])
        endpoint.seen(values["ts_ns"], values["ts_ns"])


def lines(inventory: Inventory, others: Mapping[tuple[str, int], int]) -> Iterator[bytes]:
    """Yield the JSON lines of an inventory.

    `others` counts TCP connections without ZMTP, by destination.
    """
    for values in objects(inventory, others):
        yield orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)


def objects(inventory: Inventory, others: Mapping[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
    for endpoint in sorted(inventory.endpoints.values(), key=_busiest_first):
        yield _endpoint(endpoint, 0 if endpoint.address.transport == "udp" else others.get(endpoint.address[:2], 0))
    for refusal, refused in sorted(inventory.refusals.items(), key=_most_often_first):
        yield {
            "found": "refusal",
            **refusal._asdict(),
            "count": refused.count,
            "text": refused.text,
            "start_ns": refused.start_ns,
        }
    spoken = {address[:2] for address in inventory.endpoints if address.transport != "udp"}
    for (ip, port), count in sorted(others.items(), key=lambda other: (-other[1], other[0])):
        if (ip, port) not in spoken:
            yield {"found": "other", "ip": ip, "port": port, "connections": count}


def _busiest_first(endpoint: Endpoint) -> tuple[Any, ...]:
    return -endpoint.connections, endpoint.address


def _most_often_first(item: tuple[Refusal, Refused]) -> tuple[Any, ...]:
    refusal, refused = item
    return -refused.count, refusal[:4], refusal.finding or ""


def _endpoint(endpoint: Endpoint, others: int) -> dict[str, Any]:
    return {
        "found": "endpoint",
        **endpoint.address._asdict(),
        "connections": endpoint.connections,
        "versions": _by_count(endpoint.versions),
        "mechanisms": _by_count(endpoint.mechanisms),
        "socket_types": _by_count(endpoint.socket_types),
        "client_types": _by_count(endpoint.client_types),
        "identities": sorted(endpoint.identities),
        "client_identities": sorted(endpoint.client_identities),
        "more_identities": endpoint.more_identities,
        "clients": sorted(endpoint.clients),
        "clients_complete": len(endpoint.clients) < MAX_CLIENTS,
        "handshakes": _by_count(endpoint.handshakes),
        "confidences": _by_count(endpoint.confidences),
        "messages": endpoint.messages,
        "other_connections": others,
        "start_ns": endpoint.start_ns,
        "end_ns": endpoint.end_ns,
    }


def _by_count(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
