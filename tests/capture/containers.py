"""Captures for tests: packets written as pcap or pcapng in every form, and read back as plain values."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from zmtpscope.capture import Captures, open_captures
from zmtpscope.capture.segments import FILE_SHIFT, NO_PORTS, ORDINALS, PACKET_MASK

ETHERNET = 1


@dataclass(frozen=True)
class Packet:
    """One packet as a capture holds it; `original` is its length on the wire where less was captured."""

    octets: bytes
    time: int = 1_700_000_000_000_000_000
    link: int = ETHERNET
    original: int | None = None

    @property
    def wire_length(self) -> int:
        return len(self.octets) if self.original is None else self.original


class Segment(NamedTuple):
    """A captured TCP segment, without its position in the block."""

    file: int
    packet: int
    time: int
    key: bytes
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes
    cut: int


class Udp(NamedTuple):
    file: int
    packet: int
    time: int
    key: bytes
    payload: bytes


def pcap(
    packets: Sequence[Packet], *, order: str = "<", nanoseconds: bool = False, modified: bool = False, link: int = -1
) -> bytes:
    """A pcap file; the link type is that of the first packet unless it is given."""
    magic = 0xA1B2CD34 if modified else 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    link = (packets[0].link if packets else ETHERNET) if link < 0 else link
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
    for packet in packets:
        seconds, fraction = divmod(packet.time, 1_000_000_000)
        fraction = fraction if nanoseconds else fraction // 1000
        parts.append(struct.pack(order + "IIII", seconds, fraction, len(packet.octets), packet.wire_length))
        parts.append(bytes(8) if modified else b"")
        parts.append(packet.octets)
    return b"".join(parts)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(link: int = ETHERNET, order: str = "<", options: bytes = b"", snap_length: int = 0) -> bytes:
    return block(1, struct.pack(order + "HHI", link, 0, snap_length) + options, order)


def enhanced(packet: Packet, units: int, number: int = 0, order: str = "<", options: bytes = b"") -> bytes:
    head = struct.pack(order + "IIIII", number, units >> 32, units & 0xFFFFFFFF, len(packet.octets), packet.wire_length)
    return block(6, head + packet.octets + bytes(-len(packet.octets) % 4) + options, order)


def old(packet: Packet, units: int, number: int = 0, order: str = "<") -> bytes:
    lengths = (len(packet.octets), packet.wire_length)
    return block(
        2, struct.pack(order + "HHIIII", number, 0, units >> 32, units & 0xFFFFFFFF, *lengths) + packet.octets, order
    )


def pcapng(packets: Sequence[Packet], *, order: str = "<", old_blocks: bool = False) -> bytes:
    """A pcapng file with one section, an interface for each link type, and microseconds."""
    links = list(dict.fromkeys(packet.link for packet in packets))
    write = old if old_blocks else enhanced
    parts = [section(order), *(interface(link, order) for link in links)]
    parts += [write(packet, packet.time // 1000, links.index(packet.link), order) for packet in packets]
    return b"".join(parts)


def read(captures: Captures) -> tuple[list[Segment], list[Udp]]:
    """Read everything in `captures`, and check invariants."""
    segments: list[Segment] = []
    datagrams: list[Udp] = []
    memberships = 0
    for each in captures:
        assert each.ordinal == ORDINALS * len(segments)
        columns = (each.sequences, each.acknowledgments, each.flags, each.starts, each.stops, each.packets, each.times)
        assert {(column.dtype.name, len(column)) for column in columns} == {("int64", len(each))}
        assert ((each.starts >= 0) & (each.starts <= each.stops) & (each.stops <= len(each.data))).all()
        assert list(dict.fromkeys(each.flows.tolist())) == list(range(len(each.keys)))
        assert len(set(each.keys)) == len(each.keys)
        assert all(type(key) is bytes for key in each.keys)
        for index, row in enumerate(zip(each.flows, *columns, strict=True)):
            flow, sequence, acknowledgment, flags, start, stop, reference, time = map(int, row)
            segments.append(
                Segment(
                    reference >> FILE_SHIFT,
                    reference & PACKET_MASK,
                    time,
                    each.keys[flow],
                    sequence,
                    acknowledgment,
                    flags,
                    each.data[start:stop],
                    each.cut.get(index, 0),
                )
            )
        for key, start, stop, reference, time, cut, _, ordinal in each.datagrams:
            assert 0 <= start <= stop <= len(each.data)
            assert cut >= 0
            assert -ORDINALS <= ordinal < ORDINALS * len(segments)
            if all(segment.file == reference >> FILE_SHIFT for segment in segments):
                before = sum(segment.packet < reference & PACKET_MASK for segment in segments)
                assert ordinal == ORDINALS * (before - 1)
            if key.endswith(NO_PORTS):
                memberships += 1
                continue
            payload = each.data[start:stop]
            datagrams.append(Udp(reference >> FILE_SHIFT, reference & PACKET_MASK, time, key, payload))
    statistics = captures.statistics
    assert statistics.tcp_segments == len(segments)
    assert statistics.udp_datagrams == len(datagrams)
    assert statistics.other.get("IGMP or MLD", 0) == memberships
    assert statistics.packets == len(segments) + len(datagrams) + sum(statistics.other.values())
    return segments, datagrams


def read_octets(folder: Path, *files: bytes, block_size: int = 1 << 20) -> tuple[list[Segment], list[Udp]]:
    captures = captures_of(folder, *files, block_size=block_size)
    return read(captures)


def captures_of(folder: Path, *files: bytes, block_size: int = 1 << 20) -> Captures:
    """Write `files` into `folder` and open them as one run."""
    paths = [folder / f"{index}.capture" for index in range(len(files))]
    for path, octets in zip(paths, files, strict=True):
        path.write_bytes(octets)
    return open_captures([str(path) for path in paths], block_size=block_size)


def tcp_packet(total: int, payload: bytes, *, header: int = 0x50) -> bytes:
    """Return an Ethernet frame with IPv4 and TCP that announce these lengths."""
    ip = bytes((0x45, 0)) + total.to_bytes(2, "big") + bytes(4) + b"\x40\x06\0\0" + bytes((10, 0, 0, 1, 10, 0, 0, 2))
    tcp = b"\x12\x34\x15\xb3" + (7).to_bytes(4, "big") + (9).to_bytes(4, "big") + bytes((header, 0x18)) + bytes(6)
    return bytes(12) + b"\x08\x00" + ip + tcp + payload
