"""What the records of a connection or flow are known by: its endpoints, and a `conn_id` made of them."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

IPV4_SIZE = 4
"""Octets of an address."""


class Stream(NamedTuple):
    """What all records of one side of one connection share; the addresses are those of the sender and its peer."""

    conn: int | None
    """None for a UDP flow, all of whose datagrams go one way."""
    conn_id: str
    side: int | None
    src_ip: str
    src_port: int
    dst_ip: str
    dst_port: int


def stream_of(key: bytes, began: int, incarnation: int, number: int | None, transport: str = "") -> Stream:
    """What the records of side 0 have in common; `key` is the source, the destination and their ports.

    `conn_id` is made of the endpoints and the time of the first packet, and of `incarnation` where that is not 0.
    """
    (here, port), (there, other) = ends_of(key)
    identity = f"{transport}{here} {port} {there} {other} {began}{f' {incarnation}' * (incarnation > 0)}"
    return Stream(number, blake2b(identity.encode(), digest_size=8).hexdigest(), 0, here, port, there, other)


def ends_of(key: bytes) -> tuple[tuple[str, int], tuple[str, int]]:
    """Address and port of the source and of the destination of a flow."""
    size = (len(key) - 4) // 2
    here, there = address(key[:size]), address(key[size : 2 * size])
    return (here, int.from_bytes(key[-4:-2])), (there, int.from_bytes(key[-2:]))


@lru_cache(maxsize=4096)
def address(octets: bytes) -> str:
    """An IPv4 or IPv6 address as people write it."""
    if len(octets) == IPV4_SIZE:  # as ip_address, which takes longer to load than a tiny capture to read
        return ".".join(map(str, octets))
    from ipaddress import IPv6Address  # what nobody sends is not loaded

    return str(IPv6Address(octets))


FIRST_EPHEMERAL = 32_768
"""From here on systems give ports to those who connect (Linux; BSD and Windows from 49,152 on)."""


def listening_side(ports: tuple[int, int], listener: int | None = None) -> int:
    """The side that was connected to: `listener`, where that is known; else who has a port below `FIRST_EPHEMERAL`, and
    the other side one above; else side 1, which did not open the connection, or was not seen first."""
    is_given, is_given_there = (port >= FIRST_EPHEMERAL for port in ports)
    if listener is not None:
        return listener
    return 1 if is_given == is_given_there or is_given else 0
