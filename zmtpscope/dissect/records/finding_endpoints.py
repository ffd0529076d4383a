"""The endpoints of findings of one kind, with count, first packet and clients, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.dissect.arrivals import Stamp
from zmtpscope.dissect.records.facts import Endpoint

MAX_ENDPOINTS = 256
"""Maximum number of endpoints to remember per kind of finding. A scan can meet thousands."""

MAX_CLIENTS = 1024
"""Maximum number of clients to remember per kind, at all of its endpoints together."""


@dataclass(slots=True)
class AtEndpoint:
    """Findings of one kind at one endpoint."""

    first: Stamp
    """The first packet that a finding is about."""
    hint: str | None
    """The remedy for that finding."""
    count: int = 0
    clients: set[str] = field(default_factory=set)
    """Addresses of clients that connected to the endpoint."""
    has_more_clients: bool = False
    """Whether some clients are not in `clients`."""


@dataclass(slots=True)
class FindingEndpoints:
    """The endpoints of one kind of finding: the first `MAX_ENDPOINTS`."""

    endpoints: dict[Endpoint, AtEndpoint] = field(default_factory=dict)
    elsewhere: int = 0
    """Number of findings at all other endpoints."""
    clients: int = 0
    """Number of remembered clients, at most `MAX_CLIENTS`."""

    def add(self, count: int, endpoint: Endpoint, client: str, packet: Stamp, hint: str | None) -> None:
        """Add `count` findings about `client` and `endpoint`; the first has this `packet` and `hint`."""
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
