"""What the records of a connection or flow are known by: its endpoints, and a `conn_id` made of them."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from ipaddress import ip_address
from typing import NamedTuple


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
    size = (len(key) - 4) // 2
    here, there = address(key[:size]), address(key[size : 2 * size])
    port, other = int.from_bytes(key[-4:-2]), int.from_bytes(key[-2:])
    identity = f"{transport}{here} {port} {there} {other} {began}{f' {incarnation}' * (incarnation > 0)}"
    return Stream(number, blake2b(identity.encode(), digest_size=8).hexdigest(), 0, here, port, there, other)


@lru_cache(maxsize=4096)
def address(octets: bytes) -> str:
    """An IPv4 or IPv6 address as people write it."""
    return str(ip_address(octets))
