"""Whole ZMTP 3.1 conversations as octets and packets, in the form in which libzmq sends them.

Observed with libzmq on loopback and between two hosts with an MTU of 1500:

* each side writes its greeting as 10 + 1 + 53 octets, then one READY each (and a SUBSCRIBE by a SUB);
* small messages leave in writes of 8192 octets, so a frame often crosses segments; with segments of 1448 octets a
  write becomes five full ones and one of 952;
* on loopback, a message of 64 KiB leaves as a segment of 8192 octets and one with all the rest;
* a pure acknowledgment follows two data packets on loopback, six elsewhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
COMMAND = 4
"""Flag of a frame that contains a command."""
CLIENT, SERVER = 0, 1
"""Sides: the one that opens the connection, and the one that accepts it."""

WRITE = 8192
LOOPBACK_MSS = 4000
"""Larger segments are those of a loopback interface."""


def greeting(mechanism: bytes) -> bytes:
    """Return the 64 octets with which a side of 3.1 begins."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


GREETING = greeting(b"NULL")
TEXT = np.frombuffer(b'abcdefghijklmnopqrstuvwxyz0123456789{}:," ', np.uint8)


def command(name: bytes, data: bytes) -> bytes:
    """Return a short command frame."""
    body = bytes([len(name)]) + name + data
    return bytes([COMMAND, len(body)]) + body


def metadata(socket_type: bytes) -> bytes:
    """Return the properties that libzmq sends: some types also send their (empty) identity."""
    properties = {b"Socket-Type": socket_type}
    if socket_type in (b"REQ", b"DEALER", b"ROUTER"):
        properties[b"Identity"] = b""
    pairs = (bytes([len(key)]) + key + struct.pack(">I", len(value)) + value for key, value in properties.items())
    return b"".join(pairs)


def frame(body: bytes, flags: int = 0) -> bytes:
    """Return a message frame in its shortest form."""
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body


def message_frames(stream: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Return start and stop of each message frame of one side's octets, which include the greeting."""
    at = len(GREETING)
    while at < len(stream):
        flags = stream[at]
        size, head = (int.from_bytes(stream[at + 1 : at + 9]), 9) if flags & 2 else (stream[at + 1], 2)
        stop = at + head + size
        if not flags & 4:
            yield at, stop
        at = stop


class Talk:
    """One connection: the octets of both sides, and packets (side, offset in its octets, length, TCP flags)."""

    def __init__(self, mss: int) -> None:
        self.mss = mss
        self.streams = bytearray(), bytearray()
        self.packets: list[tuple[int, int, int, int]] = []

    def acknowledge(self, side: int) -> None:
        """Add a packet without octets."""
        self.packets.append((side, 0, 0, ACK))

    def write(self, side: int, octets: bytes) -> int:
        """Add one write of an application, cut into segments; the last has PSH. Return their number."""
        stream = self.streams[side]
        begin, stop = len(stream), len(stream) + len(octets)
        stream += octets
        for start in range(begin, stop, self.mss):
            end = min(start + self.mss, stop)
            self.packets.append((side, start, end - start, ACK | PSH if end == stop else ACK))
        return -(-len(octets) // self.mss)

    def open(self, client: bytes, server: bytes, subscription: bytes | None = None) -> None:
        """Add the handshakes of TCP and of ZMTP, between sockets of these types."""
        self.greet(GREETING)
        self.write(SERVER, command(b"READY", metadata(server)))
        self.write(CLIENT, command(b"READY", metadata(client)))
        if subscription is not None:
            self.write(CLIENT, command(b"SUBSCRIBE", subscription))
            self.acknowledge(SERVER)

    def greet(self, octets: bytes) -> None:
        """Add the handshake of TCP, and the same greeting from both sides."""
        self.packets += [(CLIENT, 0, 0, SYN), (SERVER, 0, 0, SYN | ACK)]
        self.acknowledge(CLIENT)
        self.write(SERVER, octets[:10])
        self.acknowledge(CLIENT)
        self.write(CLIENT, octets[:10])
        self.acknowledge(SERVER)
        for begin, end in ((10, 11), (11, 64)):
            self.write(SERVER, octets[begin:end])
            self.write(CLIENT, octets[begin:end])

    def write_all(self, side: int, octets: bytes, write_size: int, acknowledge_every: int) -> None:
        """Add a long run of writes; the other side acknowledges every few packets, and at the end."""
        since = 0
        for start in range(0, len(octets), write_size):
            before = len(self.packets)
            self.write(side, octets[start : start + write_size])
            segments, self.packets[before:] = self.packets[before:], []
            for segment in segments:
                self.packets.append(segment)
                since += 1
                if since == acknowledge_every:
                    self.acknowledge(1 - side)
                    since = 0
        if since:
            self.acknowledge(1 - side)

    def close(self) -> None:
        """Close the connection from both sides."""
        self.packets += [(CLIENT, 0, 0, FIN | ACK), (SERVER, 0, 0, FIN | ACK)]
        self.acknowledge(CLIENT)


def text(random: np.random.Generator, count: int) -> bytes:
    """Return this many characters, similar to those of real programs."""
    return TEXT[random.integers(0, len(TEXT), count)].tobytes()


def sizes(random: np.random.Generator, count: int, size: int, jitter: int) -> NDArray[np.int64]:
    """Return the sizes of bodies: all equal, or within `jitter` of `size`."""
    if not jitter:
        return np.full(count, size, np.int64)
    return random.integers(max(8, size - jitter), size + jitter + 1, count)


def json_object(number: int, random: int, length: int) -> bytes:
    """Return a JSON object of this many octets (64 or more), similar to that of a price feed."""
    front = b'{"symbol": "S%03d", "price": %d.%02d, "number": %d, "text": "' % (
        random % 1000,
        random >> 4,
        random % 100,
        number,
    )
    return front.ljust(length - 2, b"x") + b'"}'


def messages(
    random: np.random.Generator, count: int, size: int, jitter: int = 0, topics: int = 0, *, json: bool = False
) -> tuple[bytes, int]:
    """Return encoded messages, and the octets of their bodies (without topics).

    Each body begins with its number in 8 hex digits, or is a JSON object; with `topics`, a topic frame precedes it.
    """
    pool = text(random, 1 << 16) + text(random, size + jitter + 64)
    lengths = sizes(random, count, size, jitter).tolist()
    starts = random.integers(0, 1 << 16, count).tolist()
    parts: list[bytes] = []
    add = parts.append
    for number, (length, start) in enumerate(zip(lengths, starts, strict=True)):
        if topics:
            add(frame(b"topic.%d" % (number * 7 % topics), 1))
        add(b"\0%c" % length if length < 256 else b"\2" + struct.pack(">Q", length))
        if json:
            add(json_object(number, start, length))
            continue
        add(b"%08x" % (number & 0xFFFFFFFF))
        add(pool[start : start + length - 8])
    return b"".join(parts), sum(lengths)
