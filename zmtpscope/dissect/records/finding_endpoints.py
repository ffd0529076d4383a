"""Count one kind of finding by endpoint, with first packet and clients, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.dissect.arrivals import Stamp
from zmtpscope.dissect.records.facts import Endpoint

MAX_ENDPOINTS = 256
"""Endpoints for each kind of finding; a scan can meet thousands."""

MAX_CLIENTS = 1024
"""Clients for each kind, at all of its endpoints together."""


@dataclass(slots=True)
class AtEndpoint:
    """The findings of one kind at one endpoint: their number, the first packet, and the clients."""

    first: Stamp
    hint: str | None
    count: int = 0
    clients: set[str] = field(default_factory=set)
    has_more_clients: bool = False


@dataclass(slots=True)
class FindingEndpoints:
    """Counts findings of one kind at up to `MAX_ENDPOINTS` endpoints; further ones are counted together."""

    endpoints: dict[Endpoint, AtEndpoint] = field(default_factory=dict)
    elsewhere: int = 0
    """Findings at other endpoints."""
    clients: int = 0

    def add(self, count: int, endpoint: Endpoint, client: str, packet: Stamp, hint: str | None) -> None:
        """Add `count` findings about a client and an endpoint. The first finding gives packet and hint."""
        found = self.endpoints.get(endpoint)
        if found is None:
            if len(self.endpoints) == MAX_ENDPOINTS:
                self.elsewhere += count
                return
            found = self.endpoints[endpoint] = AtEndpoint(packet, hint)
        elif packet < found.first:
            found.first, found.hint = packet, hint
        found.count += count
        if client not in found.clients:
            if self.clients == MAX_CLIENTS:
                found.has_more_clients = True
            else:
                self.clients += 1
                found.clients.add(client)
