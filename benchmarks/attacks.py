"""Captures that are expensive to read: each attack is a function that writes a given amount of it.

    python -m benchmarks.attacks NAME COUNT FILE        prints the packets and octets of payload that were written

Packets are written one by one, so the size of a capture costs no memory. The same arguments give the same octets.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from random import Random
from typing import BinaryIO, NamedTuple

FIN, SYN, ACK = 0x01, 0x02, 0x10
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n"
)
UPGRADED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\nSec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n"
)
HOSTS = b"\x0a\0\0\1", b"\x0a\0\0\2"
IP_HEADER = 20
TCP, UDP = 6, 17
START = 1_750_000_000
"""Seconds since the epoch at which captures begin."""


class CaptureWriter:
    """Writes a pcap file of raw IP packets, 100 us apart."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.packets = self.octets = 0
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 101))

    def write(
        self, side: int, ports: tuple[int, int], numbers: tuple[int, int], flags: int, octets: bytes, cut: int
    ) -> None:
        """Write a packet of `side`, with its last `cut` octets not captured."""
        tcp = struct.pack(">HHIIBBHxxxx", *ports[:: 1 - 2 * side], *numbers, 0x50, flags, 0xFFFF)
        self._write(TCP, side, tcp, octets, cut)

    def write_datagram(self, ports: tuple[int, int], octets: bytes) -> None:
        """Write a UDP datagram of side 0."""
        self._write(UDP, 0, struct.pack(">HHHxx", *ports, 8 + len(octets)), octets, 0)

    def _write(self, protocol: int, side: int, header: bytes, octets: bytes, cut: int) -> None:
        seconds, ticks = divmod(self.packets, 10_000)
        length = IP_HEADER + len(header) + len(octets)
        record = struct.pack("<IIII", START + seconds, ticks * 100, length - cut, length)
        ip = struct.pack(">BxHHxxBBxx4s4s", 0x45, length, 0, 64, protocol, *HOSTS[:: 1 - 2 * side])
        self.file.write(record + ip + header + octets[: len(octets) - cut])
        self.packets += 1
        self.octets += len(octets) - cut


class Connection:
    """Writes one TCP connection, segment by segment. Side 0 opens it."""

    def __init__(self, capture: CaptureWriter, number: int = 0) -> None:
        self.capture = capture
        self.ports = 1024 + number % 64_000, 5555 + number // 64_000
        self.next = [1000, 5000]
        for side, flags in ((0, SYN), (1, SYN | ACK), (0, ACK)):
            self.send(side, b"", flags)

    def send(self, side: int, octets: bytes, flags: int = ACK, cut: int = 0) -> None:
        """Write one segment."""
        self.capture.write(side, self.ports, (self.next[side], self.next[1 - side]), flags, octets, cut)
        self.lose(side, len(octets) + bool(flags & (SYN | FIN)))

    def lose(self, side: int, octets: int) -> None:
        """Count octets that the side sends and that are not captured."""
        self.next[side] = (self.next[side] + octets) % (1 << 32)

    def greet_websocket(self, types: tuple[bytes, bytes]) -> None:
        """Write the WebSocket handshake and the NULL handshake in it; side 0 masks with zeros."""
        self.send(0, UPGRADE)
        self.send(1, UPGRADED)
        for side, socket_type in enumerate(types):
            _, _, *ready = command(b"READY", b"\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type)
            self.send(side, websocket(0x82, b"\2" + bytes(ready), side == 0))

    def greet(self, types: tuple[bytes, bytes]) -> None:
        """Write the NULL handshake between sockets of these types."""
        for side in (0, 1):
            self.send(side, GREETING)
        for side, socket_type in enumerate(types):
            self.send(side, command(b"READY", b"\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type))


def command(name: bytes, data: bytes) -> bytes:
    """Return a short command frame of ZMTP 3.x."""
    return bytes([4, 1 + len(name) + len(data), len(name)]) + name + data


def message(body: bytes, more: bool = False) -> bytes:
    """Return a message frame of ZMTP 2.0 and 3.x."""
    return bytes([more, len(body)]) + body if len(body) < 256 else struct.pack(">BQ", 2 | more, len(body)) + body


def websocket(first: int, payload: bytes, masks: bool) -> bytes:
    """Return a small WebSocket frame; `first` contains the opcode. The masking key is zero, so it changes nothing."""
    return bytes([first, len(payload) | (0x80 if masks else 0)]) + bytes(4 if masks else 0) + payload


class Attack(NamedTuple):
    """`write` writes an attack of a given size, `least` is the smallest size to measure; `options` are those of
    `zmtpscope`."""

    write: Callable[[CaptureWriter, int], None]
    least: int
    options: tuple[str, ...] = ("read", "-q")


def search_never_finds(capture: CaptureWriter, count: int, octets: int = 16) -> None:
    """After a hole, send segments in which no frame is ever found."""
    random, talk = Random(1), Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    talk.lose(0, 100)
    for _ in range(count):
        talk.send(0, random.randbytes(octets))


def search_of_zeros(capture: CaptureWriter, count: int) -> None:
    """After a hole, send zeros: each pair may be an empty frame, and none is evidence."""
    talk = Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    talk.lose(0, 100)
    for _ in range(count):
        talk.send(0, bytes(4))


def search_for_1_0(capture: CaptureWriter, count: int) -> None:
    """The same between two sides of 1.0: each octet may be a length, and each second one flags."""
    random, talk = Random(1), Connection(capture)
    for side in (0, 1):
        talk.send(side, b"\1\0" + b"\4\0abc")
    talk.lose(0, 100)
    for _ in range(count):
        talk.send(0, bytes(random.choices((0, 1, 2, 3, 255), k=16)))


def search_behind_many_holes(capture: CaptureWriter, count: int) -> None:
    """Lose the data before every second segment, acknowledged, without a frame anywhere."""
    random, talk = Random(1), Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for _ in range(count // 4):
        talk.lose(0, 100)
        for _ in range(2):
            talk.send(0, random.randbytes(64))
        talk.send(1, b"")


def search_of_one_octet(capture: CaptureWriter, count: int, octets: bytes) -> None:
    """Lose the data before every segment, acknowledged.

    A segment repeats one octet 1,460 times, and each may begin a frame.
    """
    talk = Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for number in range(count // 2):
        talk.lose(0, 100)
        talk.send(0, octets[number % len(octets) : number % len(octets) + 1] * 1460)
        talk.send(1, b"")


def search_of_commands(capture: CaptureWriter, count: int) -> None:
    """The same, with octets that may begin a command, until its name is complete."""
    random, talk = Random(1), Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for _ in range(count // 2):
        talk.lose(0, 100)
        talk.send(0, bytes(random.choices((4, 5), (3, 1), k=1460)))
        talk.send(1, b"")


def cut_segments(capture: CaptureWriter, count: int) -> None:
    """Cut each segment by the snap length: a hole in each packet."""
    talk = Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for number in range(count):
        talk.send(0, message(b"%08d" % number + bytes(240)), cut=200)


def lengths_of_0(capture: CaptureWriter, count: int, more: bool = False) -> None:
    """Between two sides of 1.0, send frames with a length of 0, 365 in a segment, all of one message or not."""
    talk = Connection(capture)
    for side in (0, 1):
        talk.send(side, b"\1\0" + b"\4\0abc")
    for _ in range(count):
        talk.send(0, bytes((0, 2, more, 1)) * 365)


def websocket_frames(capture: CaptureWriter, count: int, frame: bytes, side: int = 1) -> None:
    """Repeat one WebSocket frame, as many as fit into a segment of 1,460 octets."""
    talk = Connection(capture)
    talk.greet_websocket((b"PULL", b"PUSH") if side else (b"PUSH", b"PULL"))
    for _ in range(count):
        talk.send(side, frame * (1460 // len(frame)))


def frames_without_end(capture: CaptureWriter, count: int) -> None:
    """Send one message of empty frames, 700 in a segment."""
    talk = Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for _ in range(count):
        talk.send(0, message(b"", more=True) * 700)
    talk.send(0, message(b""))


def packed(capture: CaptureWriter, count: int, content: bytes) -> None:
    """Send messages of a few octets that decompress to many."""
    body = zlib.compress(content, 9)
    talk = Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for _ in range(count):
        talk.send(0, message(body))


def messages_of_a_receiver(capture: CaptureWriter, count: int) -> None:
    """Send empty messages from a PULL, 730 in a segment. Each one causes a finding."""
    talk = Connection(capture)
    talk.greet((b"PULL", b"PUSH"))
    for _ in range(count):
        talk.send(0, message(b"") * 730)


def frames_with_reserved_bits(capture: CaptureWriter, count: int) -> None:
    """Send small frames that the careful reader must read, 16 in a segment."""
    talk = Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for _ in range(count):
        talk.send(0, b"\x08\2ab" * 16)


def subscriptions(capture: CaptureWriter, count: int) -> None:
    """Subscribe to topics that all differ, 8 in a segment."""
    talk = Connection(capture)
    talk.greet((b"SUB", b"PUB"))
    for number in range(count):
        talk.send(0, b"".join(command(b"SUBSCRIBE", b"%08x" % (8 * number + place)) for place in range(8)))


def commands(capture: CaptureWriter, count: int) -> None:
    """Send PINGs after the handshake, 162 in a segment."""
    talk = Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for _ in range(count):
        talk.send(0, command(b"PING", bytes(2)) * 162)


def alternating(capture: CaptureWriter, count: int) -> None:
    """Alternate the packets of thousands of connections."""
    talks = [Connection(capture, number) for number in range(min(5000, count))]
    for talk in talks:
        talk.greet((b"PUSH", b"PULL"))
    for number in range(count):
        talks[number * 7 % len(talks)].send(0, message(b"%08d" % number))


def json_text(capture: CaptureWriter, count: int) -> None:
    """Send messages that orjson refuses, each as long as a segment may be."""
    body = b"[" + b",".join([b"NaN"] * 340) + b"]"
    talk = Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for _ in range(count):
        talk.send(0, message(body))


def large_json(capture: CaptureWriter, count: int) -> None:
    """Send one array of small arrays after the other, in a message of up to 16 MiB, in segments of 1,400 octets."""
    body = b"[" + b"[]," * (count * 1400 // 3) + b"[]]"
    frame, talk = message(body), Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    for start in range(0, len(frame), 1400):
        talk.send(0, frame[start : start + 1400])


def copies_of_what_waits(capture: CaptureWriter, count: int) -> None:
    """Let 8,000 segments of one octet wait after a hole, then repeat all of it at once."""
    talk = Connection(capture)
    talk.greet((b"PUSH", b"PULL"))
    talk.lose(0, 100)
    first = talk.next[0]
    for _ in range(8000):
        talk.send(0, b"x")
    for _ in range(count):
        talk.next[0] = first
        talk.send(0, b"x" * 8000)


def datagrams(capture: CaptureWriter, count: int) -> None:
    """Send datagrams of other protocols in four flows; one of eight begins like a RADIO message."""
    random = Random(count)
    for number in range(count):
        capture.write_datagram((40_000 + number % 4, 6000), random.randbytes(64))


ATTACKS = {
    "search, segments of 16": Attack(search_never_finds, 100_000),
    "search, segments of 4": Attack(lambda capture, count: search_never_finds(capture, count, 4), 300_000),
    "search, zeros": Attack(search_of_zeros, 300_000),
    "search, 1.0": Attack(search_for_1_0, 100_000),
    "search, many holes": Attack(search_behind_many_holes, 20_000),
    "search, runs of one octet": Attack(lambda capture, count: search_of_one_octet(capture, count, b"\1\4"), 5_000),
    "search, commands that are none": Attack(search_of_commands, 1_000),
    "cut segments": Attack(cut_segments, 20_000),
    "cut segments, told": Attack(cut_segments, 20_000, ("read",)),
    "copies of what waits": Attack(copies_of_what_waits, 1_000),
    "lengths of 0": Attack(lengths_of_0, 500),
    "lengths of 0, told": Attack(lengths_of_0, 500, ("read",)),
    "lengths of 0 in a message": Attack(lambda capture, count: lengths_of_0(capture, count, more=True), 500),
    "WebSocket, empty text": Attack(lambda capture, count: websocket_frames(capture, count, b"\x81\0"), 500),
    "WebSocket, masked text": Attack(
        lambda capture, count: websocket_frames(capture, count, websocket(0x81, b"a", True), 0), 500
    ),
    "WebSocket, messages": Attack(
        lambda capture, count: websocket_frames(capture, count, websocket(0x82, b"\0a", True), 0), 500
    ),
    "frames without end": Attack(frames_without_end, 1_000),
    "frames without end, -V": Attack(frames_without_end, 1_000, ("read", "-V")),
    "frames without end, -x": Attack(frames_without_end, 1_000, ("read", "-x")),
    "packed text": Attack(lambda capture, count: packed(capture, count, b"x" * (1 << 20)), 1_000),
    "packed JSON": Attack(lambda capture, count: packed(capture, count, b"[" + b"1," * 10_000 + b"1]"), 2_000),
    "findings on messages": Attack(messages_of_a_receiver, 1_000),
    "reserved bits": Attack(frames_with_reserved_bits, 5_000),
    "subscriptions": Attack(subscriptions, 5_000),
    "commands": Attack(commands, 200),
    "alternating connections": Attack(alternating, 50_000),
    "datagrams of others": Attack(datagrams, 100_000),
    "JSON with NaN": Attack(json_text, 1_000),
    "large JSON": Attack(large_json, 2_500, ("read", "--json", "--body", "full:16M")),
}


def main() -> None:
    """Write one attack."""
    name, count, path = sys.argv[1:]
    with open(path, "wb") as file:
        capture = CaptureWriter(file)
        ATTACKS[name].write(capture, int(count))
    print(capture.packets, capture.octets)


if __name__ == "__main__":
    main()
