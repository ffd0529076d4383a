"""Octets of ZMTP 3.0 and 2.0 (23/ZMTP, 15/ZMTP) for peers that are written by hand, and pcap files that are changed."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from captures.problems.lab import octets

SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
GREETING = SIGNATURE + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
SOCKET_TYPES_20 = {"PUB": 1, "SUB": 2, "REQ": 3, "REP": 4, "DEALER": 5, "ROUTER": 6, "PULL": 7, "PUSH": 8}
RECORD, FILE_HEADER = 16, 24
"""Octets of the headers of a pcap file."""


def frame(body: str | bytes, *, more: bool = False) -> bytes:
    """Return a short frame of 2.0 and 3.0."""
    return bytes([more, len(octets(body))]) + octets(body)


def message(*frames: str | bytes) -> bytes:
    return b"".join(frame(each, more=number < len(frames) - 1) for number, each in enumerate(frames))


def ready(socket_type: str) -> bytes:
    """Return a READY with the one required property."""
    properties = b"\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type.encode()
    body = b"\x05READY" + properties
    return bytes([4, len(body)]) + body


def handshake(connection: socket.socket, socket_type: str) -> None:
    """Return all octets of a 3.0 client and its server before their messages."""
    connection.sendall(GREETING)
    read(connection, len(GREETING))
    connection.sendall(ready(socket_type))
    read(connection, read(connection, 2)[1])


def read(connection: socket.socket, size: int) -> bytes:
    """Read this many octets, in any pieces."""
    return connection.recv(size, socket.MSG_WAITALL)


def greeting_20(socket_type: str) -> bytes:
    """Return all octets of a 2.0 peer before its messages; its identity is empty."""
    return SIGNATURE + bytes([1, SOCKET_TYPES_20[socket_type]]) + b"\0\0"


def keep_packets(keep: Callable[[int, bytes], bool]) -> Callable[[bytes], bytes]:
    """Return a change of a pcap file that keeps only packets whose number (from 1) and IP packet pass."""

    def change(capture: bytes) -> bytes:
        kept, place, number = [capture[:FILE_HEADER]], FILE_HEADER, 0
        while place < len(capture):
            (size,) = struct.unpack_from("<I", capture, place + 8)
            record = capture[place : place + RECORD + size]
            number += 1
            if keep(number, record[RECORD + 14 :]):
                kept.append(record)
            place += RECORD + size
        return b"".join(kept)

    return change


def source(ip: bytes) -> str:
    """Return the sender of an IPv4 packet."""
    return ".".join(map(str, ip[12:16]))
