"""The inventory as JSON lines: one for each endpoint, each refusal, and each endpoint without ZMTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from zmtpscope.export.inventory.inventory import MAX_CLIENTS, Endpoint, Inventory, Refusal, Refused


def lines(inventory: Inventory, others: Mapping[tuple[str, int], int]) -> Iterator[bytes]:
    """Yield the lines of an inventory; `others` is the number of TCP connections without ZMTP, by destination."""
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
