"""Where findings of one kind were made: at which endpoints, how many, the first, with which clients; within limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.dissect.arrivals import Stamp
from zmtpscope.dissect.records.facts import Endpoint

MOST_ENDPOINTS = 256
"""Endpoints that are remembered of one kind of finding: a scan that meets thousands costs no more."""

MOST_CLIENTS = 1024
"""Clients that are remembered of one kind, at all of its endpoints together."""


@dataclass(slots=True)
class AtEndpoint:
    """Findings of one kind at one endpoint."""

    first: Stamp
    """The first packet that one of them is about, ..."""
    hint: str | None
    """... and what there is to do about that one."""
    count: int = 0
    clients: set[str] = field(default_factory=set)
    """Addresses of those who connected to it, as far as they are remembered, ..."""
    has_more_clients: bool = False
    """... and whether there were others."""


@dataclass(slots=True)
class FindingEndpoints:
    """The endpoints of one kind of finding: the first `MOST_ENDPOINTS` that were met."""

    endpoints: dict[Endpoint, AtEndpoint] = field(default_factory=dict)
    elsewhere: int = 0
    """Findings at all others."""
    clients: int = 0
    """Clients that are remembered, of `MOST_CLIENTS`."""

    def add(self, count: int, endpoint: Endpoint, client: str, packet: Stamp, hint: str | None) -> None:
        """`count` more findings, with `client` at `endpoint`; `packet` is what the first of them is about, `hint` what
        there is to do."""
        found = self.endpoints.get(endpoint)
        if found is None:
            if len(self.endpoints) == MOST_ENDPOINTS:
                self.elsewhere += count
                return
            found = self.endpoints[endpoint] = AtEndpoint(packet, hint)
        elif packet < found.first:
            found.first, found.hint = packet, hint
        found.count += count
        if client not in found.clients:
            if self.clients == MOST_CLIENTS:
                found.has_more_clients = True
            else:
                self.clients += 1
                found.clients.add(client)
