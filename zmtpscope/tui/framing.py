"""How requests and replies travel between screen and worker: MessagePack, its length in four octets in front."""

from __future__ import annotations

from struct import Struct

import msgspec

LENGTH = Struct("<I")

NOTICE = 0
"""The number of what the worker says unasked; requests count from 1."""

encoder = msgspec.msgpack.Encoder()


def framed(number: int, is_failure: bool, value: object) -> bytes:
    """What goes through the socket: a request with its number, or a reply with that of its request."""
    octets = encoder.encode((number, is_failure, value))
    return LENGTH.pack(len(octets)) + octets


class Frames:
    """Octets in, as they come; whole messages out."""

    def __init__(self) -> None:
        self._octets = bytearray()

    def feed(self, octets: bytes) -> list[bytes]:
        """The messages that are whole now, without their lengths."""
        self._octets += octets
        messages = []
        at = 0
        while len(self._octets) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._octets, at)
            if len(self._octets) - at - LENGTH.size < length:
                break
            at += LENGTH.size
            messages.append(bytes(self._octets[at : at + length]))
            at += length
        del self._octets[:at]
        return messages
