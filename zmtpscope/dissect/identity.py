"""The identity of a connection or flow in records: its addresses and ports, and a `conn_id` made from them."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

IPV4_SIZE = 4


class Stream(NamedTuple):
    """The fields that all records of one side of a connection share.

    `src_ip` and `src_port` are those of the sender, `dst_ip` and `dst_port` of its peer. `conn` is the number of the
    connection.
    """

    conn: int | None
    """Connection number; None for a UDP flow."""
    conn_id: str
    side: int | None
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int

    @property
    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Address and port of side 0, then of side 1."""
        ends = (self.src_ip, self.src_port), (self.dst_ip, self.dst_port)
        return ends[::-1] if self.side == 1 else ends

    def turned(self) -> Stream:
        """Return the stream of the other side."""
        return Stream(self.conn, self.conn_id, 1 - (self.side or 0), *self[5:], *self[3:5])


def stream_of(key: bytes, began: int, incarnation: int, number: int | None, transport: str = "") -> Stream:
    """Return the fields of records for side 0 of a connection.

    `key` contains both addresses and ports, `number` is that of the connection. `conn_id` is a hash of addresses and
    ports, of `began` (the time of the first packet), and of `incarnation` if it is not 0.
    """
    (here, port), (there, other) = ends_of(key)
    identity = f"{transport}{here} {port} {there} {other} {began}{f' {incarnation}' * (incarnation > 0)}"
    return Stream(number, blake2b(identity.encode(), digest_size=8).hexdigest(), 0, here, port, there, other)


@lru_cache(maxsize=4096)
def ends_of(key: bytes) -> tuple[tuple[str, int], tuple[str, int]]:
    size = (len(key) - 4) // 2
    here, there = address(key[:size]), address(key[size : 2 * size])
    return (here, int.from_bytes(key[-4:-2])), (there, int.from_bytes(key[-2:]))


@lru_cache(maxsize=4096)
def address(octets: bytes) -> str:
    """Format an IPv4 or IPv6 address as text."""
    if len(octets) == IPV4_SIZE:  # as ip_address does, whose import takes longer than a tiny capture
        return ".".join(map(str, octets))
    from ipaddress import IPv6Address

    return str(IPv6Address(octets))


@lru_cache(maxsize=4096)
def is_loopback(text: str) -> bool:
    """Whether only programs of the same host can use an address."""
    if ":" not in text:
        return text.startswith("127.")
    from ipaddress import IPv6Address

    return IPv6Address(text).is_loopback


FIRST_EPHEMERAL = 32_768
"""Lowest port that systems assign to clients (Linux; BSD and Windows start at 49,152)."""


def listening_side(ports: tuple[int, int], listener: int | None = None) -> int:
    """Return the side that accepted the connection.

    It is `listener` if known; otherwise the side with a port below `FIRST_EPHEMERAL` if the other port is not;
    otherwise side 1, which did not open the connection, or was not the first one captured.
    """
    is_given, is_given_there = (port >= FIRST_EPHEMERAL for port in ports)
    if listener is not None:
        return listener
    return 1 if is_given == is_given_there or is_given else 0
