"""Messages between screen and worker: MessagePack, after a length of four octets."""

from __future__ import annotations

from struct import Struct

import msgspec

LENGTH = Struct("<I")

NOTICE = 0
"""Number of a notice, which answers no request. Requests count from 1."""

encoder = msgspec.msgpack.Encoder()


def framed(number: int, is_failure: bool, value: object) -> bytes:
    """Encode a request with its number, or the reply to the request with that number."""
    octets = encoder.encode((number, is_failure, value))
    return LENGTH.pack(len(octets)) + octets


class Frames:
    """Splits received octets into messages."""

    def __init__(self) -> None:
        self._octets = bytearray()

    def feed(self, octets: bytes) -> list[bytes]:
        """Add received octets; return the messages that are complete, without their lengths."""
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
