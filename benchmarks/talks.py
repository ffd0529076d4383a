"""Whole ZMTP 3.1 conversations as octets and packets, in the shape in which libzmq puts them on the wire.

What libzmq was seen to do, on loopback and between two hosts with an MTU of 1500:

* a greeting is written as 10 + 1 + 53 octets by each side, then one READY each (and a SUBSCRIBE by a SUB);
* small messages leave in writes of 8192 octets, so a frame often crosses segments; with segments of 1448 octets a
  write becomes five full ones and one of 952;
* a message of 64 KiB leaves, on loopback, as a segment of 8192 octets and one with all the rest;
* a pure acknowledgment follows two data packets on loopback, six elsewhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
COMMAND = 4
"""The flag of a frame that holds a command."""
CLIENT, SERVER = 0, 1
"""Sides: who opens the connection, and who accepts it."""

WRITE = 8192
LOOPBACK_MSS = 4000
"""Segments larger than this are those of a loopback interface."""


def greeting(mechanism: bytes) -> bytes:
    """The 64 octets that a side of 3.1 begins with."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


GREETING = greeting(b"NULL")
TEXT = np.frombuffer(b'abcdefghijklmnopqrstuvwxyz0123456789{}:," ', np.uint8)


def command(name: bytes, data: bytes) -> bytes:
    """A short command frame."""
    body = bytes([len(name)]) + name + data
    return bytes([COMMAND, len(body)]) + body


def metadata(socket_type: bytes) -> bytes:
    """Properties as libzmq sends them: types that can be addressed also tell their (empty) identity."""
    properties = {b"Socket-Type": socket_type}
    if socket_type in (b"REQ", b"DEALER", b"ROUTER"):
        properties[b"Identity"] = b""
    pairs = (bytes([len(key)]) + key + struct.pack(">I", len(value)) + value for key, value in properties.items())
    return b"".join(pairs)


def frame(body: bytes, flags: int = 0) -> bytes:
    """A message frame in its shortest form."""
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body


def message_frames(stream: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Start and stop of each message frame of one side's octets, greeting included."""
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
        """A packet without octets."""
        self.packets.append((side, 0, 0, ACK))

    def write(self, side: int, octets: bytes) -> int:
        """One write of an application, cut into segments; PSH is on the last. Returns how many there are."""
        stream = self.streams[side]
        begin, stop = len(stream), len(stream) + len(octets)
        stream += octets
        for start in range(begin, stop, self.mss):
            end = min(start + self.mss, stop)
            self.packets.append((side, start, end - start, ACK | PSH if end == stop else ACK))
        return -(-len(octets) // self.mss)

    def open(self, client: bytes, server: bytes, subscription: bytes | None = None) -> None:
        """The handshakes of TCP and of ZMTP, between sockets of these types."""
        self.greet(GREETING)
        self.write(SERVER, command(b"READY", metadata(server)))
        self.write(CLIENT, command(b"READY", metadata(client)))
        if subscription is not None:
            self.write(CLIENT, command(b"SUBSCRIBE", subscription))
            self.acknowledge(SERVER)

    def greet(self, octets: bytes) -> None:
        """The handshake of TCP, and the same greeting from both sides."""
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
        """A long run of writes; the other side acknowledges every so many packets, and at the end."""
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
        """Both sides are done."""
        self.packets += [(CLIENT, 0, 0, FIN | ACK), (SERVER, 0, 0, FIN | ACK)]
        self.acknowledge(CLIENT)


def text(random: np.random.Generator, count: int) -> bytes:
    """So many characters that look like what programs send."""
    return TEXT[random.integers(0, len(TEXT), count)].tobytes()


def sizes(random: np.random.Generator, count: int, size: int, jitter: int) -> NDArray[np.int64]:
    """The sizes of bodies: all alike, or anything within `jitter` of `size`."""
    if not jitter:
        return np.full(count, size, np.int64)
    return random.integers(max(8, size - jitter), size + jitter + 1, count)


def json_object(number: int, random: int, length: int) -> bytes:
    """An object of so many octets (64 or more), as a feed of prices sends it."""
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
    """So many messages as they leave the encoder, and the octets of their bodies (topics not counted).

    Each body begins with its number in 8 hex digits, or is an object of JSON; with `topics`, a frame with a topic
    precedes it.
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
