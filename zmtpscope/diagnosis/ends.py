"""The two ends of a connection."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.words import host_port

Endpoint = tuple[str, int]
"""Address and port of a listener."""


class Ends(NamedTuple):
    """The two ends of the connections of a client: its address, and the endpoint of the server."""

    client: str
    endpoint: Endpoint

    @property
    def name(self) -> str:
        """For example, `10.0.0.2 at 10.0.0.1:5555`."""
        return f"{self.client} at {host_port(*self.endpoint)}"
