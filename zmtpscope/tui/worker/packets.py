"""The packets behind a record as fields: what its headers say, and which octets are the stream's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from zmtpscope.capture.segments import ACK, FIN, PACKET_MASK, PSH, RST, SYN
from zmtpscope.export.clock import rfc_3339
from zmtpscope.filter.writing import comparison
from zmtpscope.records import SECOND
from zmtpscope.store.segment_index import WholePacket
from zmtpscope.tui.requests import Node

IPV4_HEADER, IPV6_HEADER, TCP_HEADER = 20, 40, 20
TCP = 6
FLAGS = {SYN: "SYN", FIN: "FIN", RST: "RST", PSH: "PSH", ACK: "ACK"}


class Headers(NamedTuple):
    """Where the headers of a packet begin."""

    ip: int
    tcp: int


def headers_of(octets: bytes, payload: int) -> Headers | None:
    """The headers that lead to a payload, whatever the link layer; None where none do, as with extension headers."""
    for ip in range(payload - IPV4_HEADER - TCP_HEADER + 1):
        version, words = octets[ip] >> 4, octets[ip] & 0x0F
        if version == 4 and words >= 5 and octets[ip + 9] == TCP:
            tcp = ip + 4 * words
        elif version == 6 and octets[ip + 6] == TCP:
            tcp = ip + IPV6_HEADER
        else:
            continue
        if tcp + TCP_HEADER <= payload == tcp + (octets[tcp + 12] >> 4) * 4:
            return Headers(ip, tcp)
    return None


def nodes_of_packet(packet: WholePacket, source: int, values: Mapping[str, Any]) -> Iterator[Node]:
    """A packet that brought a record, from top to bottom; it is a source of its own. Its time is known where it is the
    first or last one of the record with these fields."""
    number, size, octets = packet.reference & PACKET_MASK, len(packet.octets), packet.octets
    time = {values["packet"]: values["ts_ns"], values.get("packet_end"): values.get("ts_end_ns")}.get(number)
    when = "" if time is None else f", {rfc_3339(time // SECOND).decode()}.{time % SECOND:09}Z"
    filter = comparison("packet", number) if number == values["packet"] else None
    yield Node(0, f"packet {number}", f"{size} octets{when}", source, 0, size, filter=filter or "")
    headers = headers_of(octets, packet.start)
    if headers is not None:
        ip, tcp = headers
        if ip:
            yield Node(1, "link", f"{ip} octets", source, 0, ip)
        yield from _nodes_of_ip(octets, ip, tcp, source)
        yield from _nodes_of_tcp(octets, tcp, packet.start, source)
    elif packet.start:
        yield Node(1, "headers", f"{packet.start} octets", source, 0, packet.start)
    payload = f"{packet.stop - packet.start} octets of the stream from {packet.begin} on"
    yield Node(1, "tcp.payload", payload, source, packet.start, packet.stop)
    if packet.stop < size:
        yield Node(1, "padding", f"{size - packet.stop} octets", source, packet.stop, size)


def _nodes_of_ip(octets: bytes, ip: int, tcp: int, source: int) -> Iterator[Node]:
    is_4 = octets[ip] >> 4 == 4
    yield Node(1, "ip" if is_4 else "ipv6", "", source, ip, tcp)
    at, length, hops = (ip + 12, 4, ip + 8) if is_4 else (ip + 8, 16, ip + 7)
    yield Node(2, "ip.ttl" if is_4 else "ipv6.hlim", f"{octets[hops]}", source, hops, hops + 1)
    for name, field in (("src", "src_ip"), ("dst", "dst_ip")):
        address = str(ip_address(octets[at : at + length]))
        name = f"{'ip' if is_4 else 'ipv6'}.{name}"
        yield Node(2, name, address, source, at, at + length, filter=comparison(field, address) or "")
        at += length


def _nodes_of_tcp(octets: bytes, tcp: int, stop: int, source: int) -> Iterator[Node]:
    yield Node(1, "tcp", "", source, tcp, stop)
    for name, field, at in (("srcport", "src_port", tcp), ("dstport", "dst_port", tcp + 2)):
        port = int.from_bytes(octets[at : at + 2])
        yield Node(2, f"tcp.{name}", f"{port}", source, at, at + 2, filter=comparison(field, port) or "")
    for name, at, size in (("seq", tcp + 4, 4), ("ack", tcp + 8, 4)):
        yield Node(2, f"tcp.{name}", f"{int.from_bytes(octets[at : at + size])}", source, at, at + size)
    flags = [word for bit, word in FLAGS.items() if octets[tcp + 13] & bit]
    yield Node(2, "tcp.flags", " ".join(flags), source, tcp + 12, tcp + 14)
    yield Node(2, "tcp.window", f"{int.from_bytes(octets[tcp + 14 : tcp + 16])}", source, tcp + 14, tcp + 16)
    if tcp + TCP_HEADER < stop:
        yield Node(2, "tcp.options", f"{stop - tcp - TCP_HEADER} octets", source, tcp + TCP_HEADER, stop)
