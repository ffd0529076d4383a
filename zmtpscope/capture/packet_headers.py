"""Decode one packet's headers field by field, for display."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import NamedTuple

from zmtpscope.capture.segments import ACK, FIN, PSH, RST, SYN

IPV4_HEADER, IPV6_HEADER, TCP_HEADER = 20, 40, 20
TCP = 6
FLAGS = {SYN: "SYN", FIN: "FIN", RST: "RST", PSH: "PSH", ACK: "ACK"}


class HeaderField(NamedTuple):
    """A header field with Wireshark's name, and its octets `start..stop` in the packet.

    Fields of a larger `depth` are inside the field before them.
    """

    depth: int
    name: str
    value: str
    start: int
    stop: int


class _Headers(NamedTuple):
    ip: int
    tcp: int


def header_fields(octets: bytes, payload: int) -> Iterator[HeaderField]:
    """Yield the headers before the TCP payload, from the link layer on (RFC 791, 8200, 9293).

    `payload` is its offset in the packet. Headers that are not understood, such as extension headers, are one field.
    """
    headers = _headers_of(octets, payload)
    if headers is None:
        if payload:
            yield HeaderField(0, "headers", f"{payload} octets", 0, payload)
        return
    if headers.ip:
        yield HeaderField(0, "link", f"{headers.ip} octets", 0, headers.ip)
    yield from _ip_fields(octets, headers)
    yield from _tcp_fields(octets, headers.tcp, payload)


def _headers_of(octets: bytes, payload: int) -> _Headers | None:
    """Find the headers before the TCP payload at offset `payload`, on any link layer; None if there are none."""
    for ip in range(payload - IPV4_HEADER - TCP_HEADER + 1):
        version, words = octets[ip] >> 4, octets[ip] & 0x0F
        if version == 4 and words >= 5 and octets[ip + 9] == TCP:
            tcp = ip + 4 * words
        elif version == 6 and octets[ip + 6] == TCP:
            tcp = ip + IPV6_HEADER
        else:
            continue
        if tcp + TCP_HEADER <= payload == tcp + (octets[tcp + 12] >> 4) * 4:
            return _Headers(ip, tcp)
    return None


def _ip_fields(octets: bytes, headers: _Headers) -> Iterator[HeaderField]:
    ip, tcp = headers
    is_4 = octets[ip] >> 4 == 4
    name = "ip" if is_4 else "ipv6"
    at, length, hops = (ip + 12, 4, ip + 8) if is_4 else (ip + 8, 16, ip + 7)
    yield HeaderField(0, name, "", ip, tcp)
    yield HeaderField(1, "ip.ttl" if is_4 else "ipv6.hlim", f"{octets[hops]}", hops, hops + 1)
    for end in ("src", "dst"):
        yield HeaderField(1, f"{name}.{end}", str(ip_address(octets[at : at + length])), at, at + length)
        at += length


def _tcp_fields(octets: bytes, tcp: int, stop: int) -> Iterator[HeaderField]:
    yield HeaderField(0, "tcp", "", tcp, stop)
    for name, at, size in (("srcport", 0, 2), ("dstport", 2, 2), ("seq", 4, 4), ("ack", 8, 4)):
        begin, end = tcp + at, tcp + at + size
        yield HeaderField(1, f"tcp.{name}", f"{int.from_bytes(octets[begin:end])}", begin, end)
    flags = [word for bit, word in FLAGS.items() if octets[tcp + 13] & bit]
    yield HeaderField(1, "tcp.flags", " ".join(flags), tcp + 12, tcp + 14)
    yield HeaderField(1, "tcp.window", f"{int.from_bytes(octets[tcp + 14 : tcp + 16])}", tcp + 14, tcp + 16)
    if tcp + TCP_HEADER < stop:
        yield HeaderField(1, "tcp.options", f"{stop - tcp - TCP_HEADER} octets", tcp + TCP_HEADER, stop)
